"""A worker process of task=verifiers, which loads tasksets and scores answers.

It runs with the Python that has verifiers, possibly of another environment, so it imports nothing
of this package. A request is (LOAD or SCORE, arguments), its reply (DONE, value), (REFUSED, the
problem with the taskset), (FAILED, the error of a reward) or (LATE, "").

Rewards run in the main thread and in one event loop, as in verifiers itself: math-verify's time
limits are signals, which fail in other threads, where every answer would count as wrong.
"""

import asyncio
import hashlib
import inspect
import os
import pickle
import signal
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from traceback import walk_tb
from typing import Any

LOAD, SCORE = "load", "score"
DONE, REFUSED, FAILED, LATE = "done", "refused", "failed", "late"
NONE, SUBPROCESS = "none", "subprocess"
"""Runtimes that rewards may use."""

if __name__ == "__main__":
    try:
        import verifiers.v1 as vf
        from pydantic import ValidationError
        from verifiers.v1.envs.single_agent import SingleAgentEnv
        from verifiers.v1.runtimes import provision_runtime
        from verifiers.v1.state import state_cls
        from verifiers.v1.utils import loaders
        from verifiers.v1.utils.decorators import discover_decorated, invoke
    except ImportError as error:
        missing: ImportError | None = error
    else:
        missing = None


class Refused(Exception):
    """A taskset that is not supported."""


def load(name: str, config: dict[str, Any], most: int | None, runtime: str) -> dict[str, Any]:
    """The tasks of a taskset, the object that scores them, and a hash of its code."""
    taskset = _taskset(name, config)
    _require_one_turn(name, taskset)
    view = taskset if most is None else taskset.take(most)
    if not view.bounded:
        raise Refused("it makes tasks without end; say how many with task.prompts")
    try:
        tasks = list(view)
    except Exception as error:
        raise Refused(f"its load() raised {described(error)}") from error
    if not tasks:
        raise Refused("it has no tasks")
    scored: dict[tuple[type, int], dict[str, float]] = {}
    rows = []
    for task in tasks:
        key = type(task), id(task.config)
        if key not in scored:
            scored[key] = _weights(task, runtime)
        rows.append((*_asked(task), scored[key], _pickled(task)))
    return {"rows": rows, "digest": _digest(loaders.import_taskset(name))}


def _taskset(name: str, config: dict[str, Any]) -> Any:
    try:
        kind = loaders.taskset_config_type(name)
        return loaders.load_taskset(kind.model_validate({**config, "id": name}))
    except ModuleNotFoundError as error:
        absent = getattr(error.__cause__, "name", None) or error.name or ""
        if absent == name.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_").lower():
            raise Refused(
                f"there is no such package in the environment of {sys.executable}; install it "
                f"there, from the Environments Hub with `prime env install {name}`"
            ) from None
        raise Refused(f"its package needs {absent!r}, which is not installed") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(["task.config", *map(str, first["loc"])])
        raise Refused(f"{key} = {first['input']!r}: {first['msg']}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise Refused(f"it is no taskset of verifiers.v1: {error}") from None
    except Exception as error:
        raise Refused(f"it does not load: {described(error)}") from error


def _require_one_turn(name: str, taskset: Any) -> None:
    """Refuse tasksets with more than one question and one answer."""
    environment = loaders.environment_class(name)
    if environment is not SingleAgentEnv:
        raise Refused(
            f"its environment {environment.__name__} may take several turns or agents; only "
            "single-turn tasksets can be trained on"
        )
    if loaders.default_harness_id(name) == name:
        raise Refused("it brings a harness of its own, which may take several turns")
    _require_no_tools(taskset.toolsets(taskset.config))


def _require_no_tools(servers: Sequence[Any]) -> None:
    if servers:
        names = ", ".join(sorted({type(server).__name__ for server in servers}))
        raise Refused(f"it needs tool servers ({names}), which take several turns")


def _weights(task: Any, runtime: str) -> dict[str, float]:
    """The weight of each reward, by name; refuses a kind of task that cannot be scored here."""
    if task.NEEDS_CONTAINER:
        raise Refused(f"its {type(task).__name__} needs a container")
    _require_no_tools(task.toolsets(task.config))
    if changing := discover_decorated(task, "intercept"):
        raise Refused(f"its {changing[0].__name__} (@vf.intercept) changes messages")
    needing = [name for name, function in _hooks(task) if _needs_runtime(function)]
    if needing and runtime == NONE:
        raise Refused(
            f"{', '.join(needing)} of its {type(task).__name__} needs a runtime; "
            "task.runtime=subprocess runs what it starts on this machine, outside any sandbox"
        )
    weights = {each.__name__: getattr(each, "_vf_weight", 1.0) for each in task.hooks("reward")}
    weights |= {judge.reward_name: judge.config.weight for judge in task.plugged_judges()}
    if not any(weights.values()):
        raise Refused(f"its {type(task).__name__} has no reward, or none of any weight")
    return weights


def _hooks(task: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that score an answer, by name."""
    for name in ("setup", "finalize"):
        if getattr(type(task), name) is not getattr(vf.Task, name):
            yield name, getattr(task, name)
    for function in (*task.hooks("metric"), *task.hooks("reward")):
        yield function.__name__, function
    for judge in task.plugged_judges():
        yield judge.reward_name, judge.score


def _needs_runtime(function: Callable[..., Any]) -> bool:
    """As in verifiers, a parameter with a default needs no runtime."""
    parameter = inspect.signature(function).parameters.get("runtime")
    return parameter is not None and parameter.default is parameter.empty


def _asked(task: Any) -> tuple[str, list[dict[str, str]], str, str]:
    """The id, the chat, the problem and the reference answer of a task."""
    data = task.data
    where = f"its task {data.idx}"
    in_container = {name: getattr(data, name) for name in ("image", "workdir", "agent_user")}
    for name, value in in_container.items():
        if value is not None:
            raise Refused(f"{where} needs a container ({name} {value!r})")
    for name in ("skills", "artifacts"):
        if getattr(data, name):
            raise Refused(f"{where} has {name}, which need a harness")
    if "*" not in data.network_allow or data.network_block:
        raise Refused(f"{where} limits the network, which needs a container")
    chat = []
    for message in _messages(data):
        content = message.content
        if message.role == "tool" or getattr(message, "tool_calls", None):
            raise Refused(f"{where} begins after several turns, with a call of a tool")
        if not isinstance(content, str) and any(part.type != "text" for part in content or ()):
            raise Refused(f"{where} asks with an image; only text is supported")
        chat.append({"role": message.role, "content": _text(content)})
    if not any(message["role"] == "user" for message in chat):
        raise Refused(f"{where} has no prompt: its user speaks first, in several turns")
    reference = getattr(data, "answer", "")
    written = str(reference) if isinstance(reference, str | int | float) else ""
    return f"{data.idx}-{task.hash[:6]}", chat, data.prompt_text, written


def _messages(data: Any) -> list[Any]:
    """The messages of a task's prompt."""
    prompt = data.prompt
    said = [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or ())
    system = data.system_prompt
    return said if system is None else [vf.SystemMessage(content=system), *said]


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content)


def _pickled(task: Any) -> bytes:
    try:
        return pickle.dumps(task)
    except Exception as error:
        raise Refused(f"its tasks cannot be sent to other processes: {described(error)}") from error


def _digest(module: Any) -> str:
    """A hash of the code of a taskset's package."""
    home = Path(module.__file__)
    files = sorted(home.parent.rglob("*.py")) if home.name == "__init__.py" else [home]
    parts = [f"{file.relative_to(home.parent)}\0".encode() + file.read_bytes() for file in files]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


async def score(
    pickled: bytes, reply: str, runtime: str, seconds: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rewards (score and weight) and the metrics of a reply, by name; None is not scored."""
    task = pickle.loads(pickled)
    trace = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state_cls(type(task))(),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
    )
    hooks = dict(_hooks(task))
    async with asyncio.timeout(seconds), AsyncExitStack() as stack:
        box = None
        if runtime == SUBPROCESS and any(map(_needs_runtime, hooks.values())):
            box = await stack.enter_async_context(
                provision_runtime(vf.SubprocessConfig(), env=task.runtime_env())
            )
        available = {"trace": trace, "runtime": box}
        if "setup" in hooks:
            await invoke(task.setup, available)
        _say(trace, task.data, reply)
        if "finalize" in hooks:
            await invoke(task.finalize, available)
        await task.score(trace, box)
    rewards = {
        name: None if reward is None else (reward.score, reward.weight)
        for name, reward in trace.rewards.items()
    }
    return rewards, dict(trace.metrics)


def _say(trace: Any, data: Any, reply: str) -> None:
    """The conversation, as after a harness with one turn."""
    for message in _messages(data):
        parent = len(trace.nodes) - 1 if trace.nodes else None
        trace.nodes.append(vf.MessageNode(parent=parent, message=message))
    trace.nodes.append(
        vf.MessageNode(
            parent=len(trace.nodes) - 1, message=vf.AssistantMessage(content=reply), sampled=True
        )
    )
    trace.calls.append(vf.ModelCall(node=len(trace.nodes) - 1, finish_reason="stop"))
    trace.stop("agent_completed")


LIBRARIES = (str(Path(sysconfig.get_path("stdlib"))), str(Path(__file__).parent))


def described(error: BaseException) -> str:
    """An error raised by a taskset's code: type, message, file, line and function."""
    while isinstance(error, vf.RolloutError) and error.__cause__ is not None:
        error = error.__cause__
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    theirs = (*LIBRARIES, str(Path(vf.__file__).parent))
    frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in frames if not code.co_filename.startswith(theirs)]
    if not own:
        return text
    code, line = own[-1]
    return f"{text} ({code.co_filename}, line {line}, in {code.co_name})"


def answer(request: tuple[str, tuple[Any, ...]], loop: "asyncio.Runner") -> tuple[str, Any]:
    """The reply to a request."""
    what, arguments = request
    try:
        return DONE, load(*arguments) if what == LOAD else loop.run(score(*arguments))
    except Refused as error:
        return REFUSED, str(error)
    except TimeoutError:
        return LATE, ""
    except Exception as error:
        return FAILED, described(error)


def main() -> None:
    """Answer requests until the connection closes; argument 1 is how to install verifiers."""
    connection, remedy = Connection(int(sys.argv[2])), sys.argv[1]
    os.dup2(2, 1)
    if missing is not None:
        connection.send(f"task = 'verifiers' needs verifiers 0.4 ({missing}): {remedy}")
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    connection.send(None)
    with asyncio.Runner() as loop:
        try:
            while True:
                connection.send(answer(connection.recv(), loop))
        except (EOFError, ConnectionError):
            pass


if __name__ == "__main__":
    main()
