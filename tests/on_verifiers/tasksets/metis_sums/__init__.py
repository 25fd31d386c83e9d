"""Sums of two numbers: single-turn, with rewards that read the answer alone."""

import re

import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.stop
    async def answered(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 1

    @vf.reward(weight=2.0)
    async def correct(self, trace: vf.Trace) -> float:
        numbers = re.findall(r"\d+", trace.last_reply)
        return float(numbers[-1:] == [self.data.answer])

    @vf.reward(weight=1.0)
    async def even(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) % 2 == 0)

    @vf.reward(weight=-1.0)
    async def loud(self, trace: vf.Trace) -> float:
        return float("!" in trace.last_reply)

    @vf.metric
    async def words(self, trace: vf.Trace) -> float:
        return len(trace.last_reply.split())


class SumsConfig(vf.TasksetConfig):
    tasks: int = 30


class SumsTaskset(vf.Taskset[SumTask, SumsConfig]):
    def load(self):
        for i in range(self.config.tasks):
            data = SumData(
                prompt=f"What is {i} + {i % 7}?",
                system_prompt="Answer with a number.",
                answer=str(i + i % 7),
            )
            yield SumTask(data, self.config.task)


__all__ = ["SumsTaskset"]
