"""Programs that print a number: single-turn, with a reward that runs the answer in a runtime."""

import sys

import verifiers.v1 as vf


class ProgramData(vf.TaskData):
    answer: str


class ProgramTask(vf.Task[ProgramData]):
    async def setup(self, runtime: vf.Runtime) -> None:
        await runtime.write("expected.txt", self.data.answer.encode())

    @vf.reward
    async def printed(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        await runtime.write("answer.py", trace.last_reply.encode())
        result = await runtime.run([sys.executable, "-I", "answer.py"], {})
        expected = await runtime.read("expected.txt")
        return float(result.exit_code == 0 and result.stdout.strip() == expected.decode())


class ProgramsTaskset(vf.Taskset[ProgramTask, vf.TasksetConfig]):
    def load(self):
        for i in range(10):
            data = ProgramData(prompt=f"Write a program that prints {i}.", answer=str(i))
            yield ProgramTask(data, self.config.task)


__all__ = ["ProgramsTaskset"]
