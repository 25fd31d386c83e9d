"""The protocol with a test's process, whose messages are untrusted."""

import secrets
import signal
from collections.abc import Sequence
from typing import Any, get_args

from metis.tasks.code.inside.plain import pack
from metis.tasks.code.session import End, Session
from metis.tasks.code.tests import Kind
from metis.tasks.code.watch import TIMEOUT

FAILURES: dict[str, Kind] = {kind: kind for kind in get_args(Kind) if kind != "passed"}
SIGNALS: dict[int, Kind] = {
    signal.SIGXCPU: "timeout",
    signal.SIGXFSZ: "blocked",
    signal.SIGSYS: "blocked",
}
LONGEST = 300


class Failed(Exception):
    """A test that did not pass: the kind of failure, and its message."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind: Kind = kind
        self.detail = detail

    @classmethod
    def told(cls, told: Sequence[Any]) -> "Failed":
        """From the report of an untrusted process, which may be malformed."""
        kind, detail = told if len(told) == 2 else ("", "")
        if isinstance(kind, str) and kind in FAILURES and isinstance(detail, str):
            return cls(FAILURES[kind], detail[:LONGEST].encode("utf-8", "replace").decode())
        return cls("error", "failed without a valid report")


class Exchange:
    """One test in a session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def start(self, role: str, stdin: str = "", **test: Any) -> None:
        self.session.start(role, stdin, **test)

    def load(self, role: str = "serve", **test: Any) -> None:
        """Load the program as a module, so that its functions can be called."""
        self.session.start(role, **test)
        if self.heard() != ["loaded"]:
            raise Failed("error", "the program ended before it was called")

    def call(self, name: str, arguments: Any, keywords: Any) -> list[Any]:
        """Call a function: ["value", value], or ["raised", exception, kind of failure, message].

        Arguments and values stay packed.
        """
        word = secrets.token_hex()
        self.session.tell(word, name, arguments, keywords)
        heard = self.heard()
        if heard[:2] == ["value", word] and len(heard) == 3:
            return ["value", heard[2]]
        if heard[:1] == ["raised"] and len(heard) == 4:
            return heard
        raise Failed("error", "answered without the nonce")

    def value(self, name: str, *arguments: Any) -> Any:
        """The packed value of a single call; the process is ended after it."""
        self.load()
        kind, *content = self.call(name, pack(arguments), pack({}))
        if kind == "raised":
            raise Failed.told(content[1:])
        self.stop()
        return content[0]

    def script(self, code: str, method: str) -> None:
        """Run statements in the program's process, which must return a nonce at their end."""
        self.load("script", unittest="unittest" in code)
        self.session.tell(code, method)
        if self.heard() != ["ended"]:
            raise Failed("error", "the program ended before the test was done")
        word = secrets.token_hex()
        self.session.tell(word)
        if self.heard() != ["word", word]:
            raise Failed("error", "ended without the nonce")
        self.end()

    def heard(self) -> list[Any]:
        """The next message of the process; raises Failed if it ended or reports a failure."""
        heard = self.session.hear()
        if isinstance(heard, End) or heard[:1] == ["failed"]:
            self.end(heard)
            raise Failed("error", "the program ended before the test was done")
        return heard

    def stop(self) -> End:
        """End the process; raises Failed if it had reached a limit before."""
        self.session.stop()
        return self.end()

    def end(self, heard: list[Any] | End | None = None) -> End:
        """Wait for the end of the process; raises Failed for an error or a reached limit."""
        report: Sequence[Any] = ()
        while not isinstance(heard, End):
            report = heard[1:] if heard and heard[0] == "failed" else report
            heard = self.session.hear()
        if failure := _failure(heard, report, self.session.limits.cpu_seconds):
            raise Failed.told(failure)
        return heard


def _failure(end: End, report: Sequence[Any], cpu_seconds: float) -> Sequence[Any]:
    """The kind of failure and its message; empty for a normal end."""
    if end.reason == "output":
        return "output", "wrote too much"
    if end.cpu > cpu_seconds:
        return TIMEOUT
    if report:
        return report
    if end.reason == "stopped" or end.status == 0:
        return ()
    if end.status > 0:
        return "error", f"ended with status {end.status}"
    number = -end.status
    name = signal.Signals(number).name if number in set(signal.Signals) else number
    return SIGNALS.get(number, "error"), f"ended by signal {name}"
