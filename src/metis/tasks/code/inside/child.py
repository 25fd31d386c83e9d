"""The process of one test: sets its resource limits, then runs the program in one of four roles.

| role | runs |
|---|---|
| `io` | the program as `__main__`, on stdin and stdout |
| `serve` | the program as a module, then calls its functions with plain data |
| `script` | the program, then statements in the same namespace |
| `drive` | statements that call functions of a program in another sandbox |

Its messages are untrusted: they can only fail the test, except for a nonce that it must return.
"""

from __future__ import annotations  # the system's Python may be 3.9

import builtins
import errno
import fcntl
import json
import math
import os
import resource
import signal
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from metis.tasks.code.inside import frames, plain
from metis.tasks.code.inside.pristine import Pristine

DOWN, UP = 3, 4
"""File descriptors of the messages to and from this process."""
HIGH = 64
LONGEST = 300
DESCRIPTORS = 128
SIGNALS = 256
STACK = 64 << 20
REFUSED = {
    errno.EPERM,
    errno.EACCES,
    errno.EROFS,
    errno.EAGAIN,
    errno.EFBIG,
    errno.ENOSPC,
    errno.EMFILE,
    errno.ENETUNREACH,
    errno.ECONNREFUSED,
    errno.EAFNOSUPPORT,
}
"""Error numbers of system calls that the sandbox does not allow."""


def run(test: dict[str, Any], program: Any, limits: dict[str, Any], given: list[int]) -> None:
    """Run the test and exit; `given` are the process's five file descriptors."""
    status = 1
    try:
        _take(given)
        _confine(limits)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in [name for name in sys.modules if name.startswith("metis")]:
            del sys.modules[name]
        status = ROLES[test["role"]](test, program)
    except BaseException as error:
        _say(*_failure(error))
    finally:
        os._exit(status)


def _take(given: list[int]) -> None:
    """Renumber the given file descriptors to 0 to 4, and close all others."""
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, HIGH) for descriptor in given]
    for number, descriptor in enumerate(moved):
        os.dup2(descriptor, number, inheritable=number < DOWN)
    os.closerange(UP + 1, os.sysconf("SC_OPEN_MAX"))


def _confine(limits: dict[str, Any]) -> None:
    cpu = math.ceil(limits["cpu_seconds"])
    size = limits["file_mb"] << 20
    bounds = {
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_FSIZE: (size, size),
        resource.RLIMIT_NOFILE: (DESCRIPTORS, DESCRIPTORS),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NPROC: (limits["processes"] + 1,) * 2,  # the driver is one of them
        resource.RLIMIT_SIGPENDING: (SIGNALS, SIGNALS),
        resource.RLIMIT_AS: (limits["memory_mb"] << 20,) * 2,
    }
    for name, bound in bounds.items():
        resource.setrlimit(name, bound)
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = STACK if hard == resource.RLIM_INFINITY else min(STACK, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))


def _say(*message: Any) -> None:
    frames.write(UP, b"M", json.dumps(message).encode())


def _hear() -> Any:
    return json.loads(frames.read(DOWN)[1])


def _failure(error: BaseException, wrong: type[BaseException] | None = None) -> tuple[str, ...]:
    """The report of a failure: kind and message; exceptions of type `wrong` are a wrong answer."""
    if wrong and isinstance(error, wrong):
        kind = "wrong"
    elif isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, OSError) and error.errno in REFUSED:
        kind = "blocked"
    else:
        kind = "error"
    return "failed", kind, _described(error)


def _described(error: BaseException) -> str:
    """The exception's type and message, and the line of the program that raised it."""
    text = type(error).__name__
    try:
        message = str(error)[:LONGEST]
    except BaseException:
        message = ""
    text += f": {message}" if message else ""
    trace, line = error.__traceback__, None
    while trace:
        if trace.tb_frame.f_code.co_filename == "program.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{text} (line {line})" if line else text


def _module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(__builtins__=builtins, __file__="program.py")
    sys.modules[name] = module
    return module


def _leave() -> None:
    """Shut down as an interpreter does: join threads, run atexit handlers, flush output."""
    import atexit

    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def io(test: dict[str, Any], program: Any) -> int:
    status = 0
    try:
        exec(program, vars(_module("__main__")))
    except SystemExit as error:
        code = error.code
        status = code if isinstance(code, int) else int(code is not None)
    _leave()
    return status & 0xFF


def _load(program: Any) -> dict[str, Any]:
    """Run the program as a module; returns its namespace."""
    module = _module("__test__")
    exec(program, vars(module))
    return vars(module)


def serve(test: dict[str, Any], program: Any) -> int:
    namespace = _load(program)
    _say("loaded")
    while True:
        word, name, arguments, keywords = _hear()
        try:
            function = _function(namespace, name)
            value = function(*plain.unpack(arguments), **plain.unpack(keywords))
            _say("value", word, plain.pack(value))
        except Exception as error:
            _say("raised", type(error).__name__, *_failure(error)[1:])


def _function(namespace: dict[str, Any], name: str) -> Any:
    """A function by name; `Class.method` is bound to an instance created without arguments."""
    first, *rest = name.split(".")
    if first not in namespace:
        raise NameError(f"the program has no {first!r}")
    value = namespace[first]
    for part in rest:
        value = getattr(value() if isinstance(value, type) else value, part)
    return value


def script(test: dict[str, Any], program: Any) -> int:
    for load in _script(test, program):  # no frame below has anything of what this holds
        load()
    return 0


def _script(test: dict[str, Any], program: Any) -> Iterator[Callable[[], object]]:
    """Yields a call that loads the program; then runs the test with the saved originals."""
    pristine = Pristine(test["unittest"], globals(), vars(frames), vars(plain))
    namespace = vars(_module("__test__"))
    restore, own_changed, run = pristine.restore, pristine.own_changed, pristine.run
    yield partial(exec, program, namespace)
    for back in pristine.undo:
        back()
    for kind, names in pristine.kinds:
        if kind.__dict__.keys() != names:
            raise AssertionError("the program changed its test")
    restore()
    namespace["__builtins__"] = builtins
    _say("loaded")
    code, method = _hear()
    try:
        exec(compile(code, "test.py", "exec"), namespace)
        if method:
            owner, _, name = method.partition(".")
            run(namespace[owner], name)
        if own_changed():
            raise AssertionError("the program changed its test")
    except SystemExit:
        _say("failed", "error", "SystemExit in a test")
    except BaseException as error:
        _say(*_failure(error, AssertionError))
    else:
        _say("ended")
        _say("word", *_hear())


def drive(test: dict[str, Any], program: Any) -> int:
    remote = {name: _remote(name) for name in test["functions"]}
    namespace: dict[str, Any] = {"__name__": "__test__", **remote}
    try:
        exec(compile(test["code"], "test.py", "exec"), namespace)
    except BaseException as error:
        _say(*_failure(error, AssertionError))
        return 1
    _say("ended")
    return 0


def _remote(name: str) -> Callable[..., Any]:
    """A stub for a function of the program, which runs in another sandbox.

    Its exceptions are raised here, except for StopIteration, which would end a `map` or `all`
    early and let the test pass.
    """

    def call(*arguments: Any, **keywords: Any) -> Any:
        _say("call", name, plain.pack(arguments), plain.pack(keywords))
        answer, *content = _hear()
        if answer == "value":
            return plain.unpack(content[0])
        kind = getattr(builtins, content[0], RuntimeError)
        usable = isinstance(kind, type) and issubclass(kind, Exception)
        usable = usable and not issubclass(kind, (StopIteration, StopAsyncIteration))
        raise (kind if usable else RuntimeError)(content[1])

    return call


ROLES: dict[str, Callable[[dict[str, Any], Any], int]] = {
    "io": io,
    "serve": serve,
    "script": script,
    "drive": drive,
}
