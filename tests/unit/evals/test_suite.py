"""An evaluation without a model: who is asked for a second opinion, and for how long."""

from metis.core import Prompt, Sampling
from metis.evals import suite
from metis.evals.benchmarks import ProblemSet
from metis.evals.plan import Limits
from metis.tasks.math import Problem, wrap


class Model:
    def encode(self, chats):
        return [[1] for _ in chats]

    def answer(self, prompts, samples, seed):
        return [[suite.Answer("\\boxed{\\sqrt{12}}", 1, "stop")] for _ in prompts]


class Watcher:
    def advance(self, benchmark, rows):
        pass


def test_a_second_opinion_takes_as_long_as_the_run_allowed(tmp_path, monkeypatch):
    limits = []

    class Verifier:
        def __init__(self, seconds):
            limits.append(seconds)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            limits.append("closed")

        def same(self, answer, reference):
            return True

    monkeypatch.setattr(suite, "Verifier", Verifier)
    problem = Problem(Prompt("a:1", "?"), wrap("?"), "2\\sqrt{3}")
    for limit, score in ((0.0, 0.0), (0.5, 1.0)):
        asked = suite.Evaluation(
            [ProblemSet("a", "A", (problem,))], Sampling(8, 0.0), 1, Limits(8, 0), 0, limit
        )
        with suite.AnswerFolder.open(tmp_path / str(limit), asked.described) as folder:
            suite.answer_all(asked, Model(), folder, Watcher())
            [(_, row)] = folder.rows()
        assert row["answers"][0]["scores"] == {"faithful": score}
        assert asked.described["verify"] is bool(limit)
    assert limits == [0.5, "closed"]
    assert asked.described["verify_limit"] == 0.5
