"""Runs the tests of one program; whatever the program does becomes a result, not an exception."""

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from metis.errors import MetisError
from metis.tasks.code.checkers import CheckerSession
from metis.tasks.code.compare import same_output, same_value
from metis.tasks.code.exchange import Exchange, Failed
from metis.tasks.code.inside.plain import NotPlain
from metis.tasks.code.session import Dead, End, Session
from metis.tasks.code.tests import Asserts, Call, Checker, Io, Kind, Limits, Result, Script, Test


class Runner:
    """The sandbox of a program, replaced when a test breaks it, and those of its asserts and
    checkers."""

    def __init__(
        self,
        program: str,
        limits: Limits,
        libraries: Sequence[Path] = (),
        room: int = 0,
        until: float = math.inf,
    ) -> None:
        """`until` is the deadline (`time.monotonic`) of the last test.

        Sandboxes that have not ended by then are waited for on leaving the context."""
        self._program, self._limits = program, limits
        self._libraries, self._room, self._until = libraries, room, until
        self._session: Session | None = None
        self._tester: Session | None = None
        self._checkers: dict[Checker, CheckerSession] = {}
        self._broken: tuple[Kind, str] | None = None
        self._spoilt = False
        self._ending: list[Session] = []

    def __enter__(self) -> "Runner":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._discard()
        for session in self._ending:
            session.close()
        for checker in self._checkers.values():
            checker.close()

    def result(self, test: Test) -> Result:
        """Run one test."""
        kind: Kind = "passed"
        detail = ""
        try:
            self._run(test)
        except Failed as failed:
            kind, detail = failed.kind, failed.detail
        except Dead as dead:
            kind, detail, self._spoilt = dead.kind, dead.detail, True
        except NotPlain as error:
            raise MetisError(f"{type(test).__name__}: {error}; make the test a Script") from None
        return Result(kind, detail, self._settle(), isinstance(test, Script))

    def _run(self, test: Test) -> None:
        exchange = Exchange(self._ready())
        if isinstance(test, Io):
            self._io(exchange, test)
        elif isinstance(test, Call):
            if not same_value(exchange.value(test.function, *test.arguments), test.expected):
                raise Failed("wrong", "not the expected value")
        elif isinstance(test, Script):
            exchange.script(test.code, test.method)
        else:
            self._asserts(exchange, test)

    def _ready(self) -> Session:
        if self._broken is None and self._session is None:
            self._session = Session(
                self._program, self._limits, self._libraries, self._room, until=self._until
            )
            self._broken = self._session.failure
        if self._broken is not None or self._session is None:
            raise Failed.told(self._broken or ())
        return self._session

    def _settle(self) -> float:
        """Prepare both sandboxes for the next test; returns this test's seconds."""
        seconds = self._session.seconds if self._session else 0.0
        try:
            for session in (self._session, self._tester):
                if session is not None and session.running and not self._spoilt:
                    session.stop()
                    while not isinstance(session.hear(), End):
                        pass
        except Dead:
            self._spoilt = True
        last = self._session.last if self._session else None
        if self._spoilt or (last is not None and not last.clean):
            self._discard()
        return last.seconds if last else seconds

    def _discard(self) -> None:
        for session in (self._session, self._tester):
            if session is not None and not session.close(self._until):
                self._ending.append(session)
        self._session = self._tester = None
        self._spoilt = False

    def _io(self, exchange: Exchange, test: Io) -> None:
        exchange.start("io", test.stdin)
        output = exchange.end().stdout
        if test.checker is None:
            right, remark = same_output(output, test.expected), "not the expected output"
        else:
            session = self._checkers.get(test.checker)
            session = session or CheckerSession(test.checker.source, self._until)
            self._checkers[test.checker] = session
            right, remark = session.check(test.stdin, output, test.expected)
        if not right:
            raise Failed("wrong", remark)

    def _asserts(self, exchange: Exchange, test: Asserts) -> None:
        """Run asserts in another sandbox; their calls are passed on to the program's."""
        if self._tester is None:
            self._tester = Session("", self._limits, until=self._until)
        self._tester.beside = (exchange.session,)
        exchange.session.beside = (self._tester,)
        tester = Exchange(self._tester)
        exchange.load()
        tester.start("drive", code=test.code, functions=test.functions)
        raised: Sequence[Any] = ()
        try:
            while (heard := tester.heard()) != ["ended"]:
                if heard[:1] != ["call"] or len(heard) != 4:
                    raise Failed("error", "the asserts sent something other than a call")
                answer, first, *rest = exchange.call(*heard[1:])
                raised = rest
                self._tester.tell(answer, first, *rest[1:])
        except Failed as failed:
            raise Failed.told(raised) if raised and failed.kind == "error" else failed from None
        exchange.stop()
