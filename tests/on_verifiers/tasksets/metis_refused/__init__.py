"""Tasks of every kind that no single question and answer can play, or that fail."""

import asyncio
import itertools
import os
import signal
import threading

import verifiers.v1 as vf


class Lookup(vf.Toolset):
    @vf.tool
    async def lookup(self, word: str) -> str:
        """Look a word up."""
        return word


class OddTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def odd(self, trace: vf.Trace) -> float | dict[str, float]:
        reply = trace.last_reply
        if reply == "raise":
            raise ValueError("this answer cannot be scored")
        if reply == "hang":
            threading.Event().wait()
        if reply == "sleep":
            await asyncio.Event().wait()
        if reply == "alarm":
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            signal.alarm(0)
            return 1.0
        if reply == "die":
            os._exit(1)
        if reply == "several":
            return {"first": 1.0, "second": 0.5}
        if reply == "much":
            return 3.0
        return float("nan") if reply == "nan" else 0.5


class Unscorable(vf.Task[vf.TaskData]):
    @vf.reward
    async def lost(self, trace: vf.Trace) -> float:
        raise LookupError("nothing can be scored")


class Unrewarded(vf.Task[vf.TaskData]):
    pass


class Contained(OddTask):
    NEEDS_CONTAINER = True


class Intercepted(OddTask):
    @vf.intercept
    async def rewrite(self, request: vf.Request) -> vf.Request:
        return request


class Tooled(OddTask):
    @classmethod
    def toolsets(cls, config):
        return [Lookup(vf.ToolsetConfig())]


IMAGE = vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url="data:image/png;base64,"))
CALLED = vf.AssistantMessage(tool_calls=[vf.ToolCall(id="a", name="lookup", arguments="{}")])
DATA = {
    "image": {"image": "python:3.11"},
    "workdir": {"workdir": "/app"},
    "network": {"network_allow": ["pypi.org"]},
    "skills": {"skills": [{"runtime": "/skills"}]},
    "no prompt": {"prompt": None},
    "picture": {"prompt": [vf.UserMessage(content=[IMAGE])]},
    "called": {"prompt": [vf.UserMessage(content="Look it up."), CALLED]},
}
TASKS = {
    "tools": Tooled,
    "unrewarded": Unrewarded,
    "intercepted": Intercepted,
    "contained": Contained,
    "unscorable": Unscorable,
}


class RefusedConfig(vf.TasksetConfig):
    kind: str = "scored"
    shared: bool = False


class RefusedTaskset(vf.Taskset[OddTask, RefusedConfig]):
    def __init__(self, config):
        super().__init__(config)
        self.INFINITE = config.kind == "endless"

    @classmethod
    def toolsets(cls, config):
        return [Lookup(vf.ToolsetConfig())] if config.shared else []

    def load(self):
        if self.config.kind == "breaks":
            raise OSError("the data are gone")
        if self.config.kind == "empty":
            return
        task = TASKS.get(self.config.kind, OddTask)
        for i in itertools.count() if self.INFINITE else range(10):
            data = {"prompt": f"What is {i}?", **DATA.get(self.config.kind, {})}
            yield task(vf.TaskData(**data), self.config.task)


__all__ = ["RefusedTaskset"]
