"""Tests of one program, each decided from what its process did; nothing that it does raises here."""

import secrets
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

from metis.errors import MetisError
from metis.tasks.code.compare import same_output, same_value
from metis.tasks.code.inside.plain import NotPlain
from metis.tasks.code.limits import Limits
from metis.tasks.code.outcome import Kind, Result
from metis.tasks.code.session import Dead, End, Session
from metis.tasks.code.tests import Asserts, Call, Io, Script, Test

FAILURES = {kind for kind in get_args(Kind) if kind != "passed"}
REASONS: dict[str, tuple[Kind, str]] = {
    "timeout": ("timeout", "ran out of time"),
    "memory": ("memory", "ran out of memory"),
    "files": ("memory", "made too many files"),
    "output": ("output", "wrote too much"),
}
SIGNALS: dict[int, Kind] = {
    signal.SIGXCPU: "timeout",
    signal.SIGXFSZ: "blocked",
    signal.SIGSYS: "blocked",
}
LONGEST = 300


class Failed(Exception):
    """A test that is not passed: its kind and a line about it."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind: Kind = kind
        self.detail = detail

    @classmethod
    def told(cls, told: Sequence[Any]) -> "Failed":
        """A failure as a process told of it, which may have told anything."""
        if len(told) == 2 and told[0] in FAILURES and isinstance(told[1], str):
            return cls(told[0], told[1][:LONGEST])
        return cls("error", "failed without a reason")


class Runner:
    """A program's sandbox, replaced when a test has spoilt it, and the sandbox of its asserts."""

    def __init__(
        self, program: str, limits: Limits, libraries: Sequence[Path] = (), room: int = 0
    ) -> None:
        self._program, self._limits = program, limits
        self._libraries, self._room = libraries, room
        self._session: Session | None = None
        self._tester: Session | None = None
        self._broken: tuple[str, str] | None = None
        self._last: End | None = None

    def __enter__(self) -> "Runner":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._discard()

    def result(self, test: Test) -> Result:
        """Run one test."""
        kind: Kind = "passed"
        detail, self._last = "", None
        try:
            self._run(test)
        except Failed as failed:
            kind, detail = failed.kind, failed.detail
        except Dead as dead:
            self._discard()
            kind, detail = dead.kind, dead.detail
        except NotPlain as error:
            raise MetisError(f"a {type(test).__name__} has {error}: make it a Script") from None
        self._settle()
        seconds = self._last.seconds if self._last else 0.0
        return Result(kind, detail, seconds, isinstance(test, Script))

    def _run(self, test: Test) -> None:
        session = self._ready()
        if isinstance(test, Io):
            self._io(session, test)
        elif isinstance(test, Call):
            self._call(session, test)
        elif isinstance(test, Script):
            self._script(session, test)
        else:
            self._asserts(session, test)

    def _ready(self) -> Session:
        if self._broken is None and self._session is None:
            self._session = Session(self._program, self._limits, self._libraries, self._room)
            self._broken = self._session.failure
        if self._broken is not None or self._session is None:
            raise Failed.told(self._broken or ())
        return self._session

    def _settle(self) -> None:
        """Leave both sandboxes as a next test needs them."""
        try:
            for session in (self._session, self._tester):
                if session is not None and session.running:
                    session.stop()
                    self._until_end(session)
        except Dead:
            self._discard()
        if self._last is not None and not self._last.clean:
            self._discard()

    def _discard(self) -> None:
        for session in (self._session, self._tester):
            if session is not None:
                session.close()
        self._session = self._tester = None

    def _io(self, session: Session, test: Io) -> None:
        session.start("io", test.stdin)
        output = self._end(session).stdout
        if test.checker is not None:
            told = test.checker.check(test.stdin, output, test.expected)
            if told is not None:
                raise Failed.told(told)
        elif not same_output(output, test.expected):
            raise Failed("wrong", "another output than expected")

    def _call(self, session: Session, test: Call) -> None:
        session.start("serve")
        self._load(session)
        kind, *content = self._answer(session, test.function, test.arguments, {})
        if kind == "raised":
            raise Failed.told(content[1:])
        session.stop()
        self._end(session)
        if not same_value(content[0], test.expected):
            raise Failed("wrong", "another value than expected")

    def _script(self, session: Session, test: Script) -> None:
        session.start("script", code=test.code, method=test.method)
        if self._heard(session) != ("ended",):
            raise Failed("error", "ended before its test did")
        word = secrets.token_hex()
        session.tell(word)
        if self._heard(session) != ("word", (word,)):
            raise Failed("error", "ended without the word")
        self._end(session)

    def _asserts(self, session: Session, test: Asserts) -> None:
        if self._tester is None:
            self._tester = Session("", self._limits)
        session.start("serve")
        self._load(session)
        self._tester.start("drive", code=test.code, functions=test.functions)
        raised: Sequence[Any] = ()
        while (heard := self._tester.hear()) and not isinstance(heard, End) and heard[0] == "call":
            answer = self._answer(session, *heard[1:])
            raised = answer[2:] if answer[0] == "raised" else ()
            self._tester.tell(*answer[:2], *answer[3:])
        if isinstance(heard, End):
            raise Failed.told(_failure(heard, (), self._limits) or ())
        if heard != ("ended",):
            raise Failed.told(raised if raised and heard[1:2] == ("error",) else heard[1:])
        session.stop()
        self._end(session)

    def _load(self, session: Session) -> None:
        if self._heard(session) != ("loaded",):
            raise Failed("error", "ended before it was called")

    def _answer(self, session: Session, name: str, arguments: Any, keywords: Any) -> Any:
        """`value` and the value, or `raised`, the exception, its kind and a line about it."""
        word = secrets.token_hex()
        session.tell(word, name, arguments, keywords)
        heard = self._heard(session)
        if heard[:2] == ("value", word) and len(heard) == 3:
            return "value", heard[2]
        if heard[:1] == ("raised",) and len(heard) == 4:
            return heard
        raise Failed("error", "answered without the word")

    def _heard(self, session: Session) -> tuple[Any, ...]:
        """The next message of the program's process; Failed where there is none."""
        heard = session.hear()
        if isinstance(heard, End) or heard[:1] == ("failed",):
            self._end(session, heard)
            raise Failed("error", "ended before its test did")
        return heard

    def _end(self, session: Session, heard: tuple[Any, ...] | End = ()) -> End:
        """The end of the program's process; Failed where it is no good one."""
        end, report = self._until_end(session, heard)
        if failure := _failure(end, report, self._limits):
            raise Failed.told(failure)
        return end

    def _until_end(
        self, session: Session, heard: tuple[Any, ...] | End = ()
    ) -> tuple[End, Sequence[Any]]:
        """The end of a test, with the failure that its process reported."""
        report: Sequence[Any] = ()
        while not isinstance(heard, End):
            report = heard[1:] if heard[:1] == ("failed",) else report
            heard = session.hear()
        if session is self._session:
            self._last = heard
        return heard, report


def _failure(end: End, report: Sequence[Any], limits: Limits) -> Sequence[Any]:
    """The kind of a failure and a line about it; empty where there is none."""
    if end.reason in REASONS:
        return REASONS[end.reason]
    if end.cpu > limits.cpu_seconds:
        return REASONS["timeout"]
    if report:
        return report
    if end.reason == "stopped" or end.status == 0:
        return ()
    if end.status > 0:
        return "error", f"ended with status {end.status}"
    number = -end.status
    name = signal.Signals(number).name if number in set(signal.Signals) else number
    return SIGNALS.get(number, "error"), f"ended by signal {name}"
