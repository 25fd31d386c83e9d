"""An evaluation without a model: what is answered together, and what is written of it."""

import pytest

from metis.core import Prompt, Sampling, Transcript
from metis.errors import MetisError
from metis.evals import suite
from metis.evals.plan import BatchLimits
from metis.run.transcripts import members, segments
from metis.tasks.base import SingleTurn
from metis.tasks.benchmarks.sets import PromptSet, scorer


class Echo:
    """A task that is right where the answer is the text."""

    def episode(self, prompt):
        chat = [{"role": "user", "content": f"{prompt.text} Say it."}]
        return SingleTurn(chat, lambda reply: float(reply == prompt.text), prompt.text)


class Model:
    """Says `says`, or the text of the prompt; remembers who was asked together."""

    def __init__(self, says="", fails=()):
        self.says, self.fails, self.calls = says, fails, []

    def lengths(self, chats):
        return [len(chat[-1]["content"]) for chat in chats]

    def answer(self, task, prompts, parts, seed):
        self.calls.append(([prompt.id for prompt in prompts], list(parts)))
        return [[self._play(task, prompt)] * sum(parts) for prompt in prompts]

    def _play(self, task, prompt):
        if prompt.id in self.fails:
            return suite.Answer((), 0, "failed", 0.0, f"ValueError: {prompt.id}")
        episode, said = task.episode(prompt), self.says or prompt.text
        episode.reply(said)
        words = [{"role": "assistant", "content": said}]
        kept = Transcript(episode.chat, words, episode.reward(), tokens=2)
        return suite.Answer(("Well.", said), 2, "stop", episode.reward(), transcript=kept)


class Watcher:
    def __init__(self):
        self.seen = []

    def advance(self, rows):
        self.seen += [row["problem"] for row in rows]


def prompt_set(name, texts, **about):
    prompts = tuple(Prompt(f"{name}:{text}", text) for text in texts)
    return PromptSet(name, name.upper(), about.pop("task", Echo()), prompts, "echo", **about)


def evaluation(*sets, samples=1, rows=2):
    sampling = Sampling(8, float(samples > 1))
    return suite.Evaluation(sets, sampling, samples, BatchLimits(3, 0), rows, seed=0)


def answered(path, asked, model):
    watcher = Watcher()
    with suite.AnswerFolder.open(path, asked.described) as folder:
        suite.answer_all(asked, model, folder, watcher)
        rows = [row for _, row in folder.rows()]
    assert watcher.seen == [row["problem"] for row in rows]
    return rows


def test_a_row_tells_what_was_said_and_what_it_earned(tmp_path):
    rows = answered(tmp_path / "a", evaluation(prompt_set("a", ["one", "two"])), Model("two"))
    assert [row["answers"][0]["scores"] for row in rows] == [{"faithful": 0.0}, {"faithful": 1.0}]
    assert rows[1]["reference"] == "two" and rows[1]["answers"][0]["turns"] == ["Well.", "two"]
    assert "error" not in rows[1]["answers"][0]


def test_the_test_of_a_run_is_answered_in_its_order_and_batches_over_all_its_sets(tmp_path):
    texts = ["long and longer", "b", "c"]
    task = Echo()
    own = [prompt_set(name, texts, task=task, own=True) for name in ("x", "y")]
    asked, model = evaluation(*own, prompt_set("z", texts), rows=4), Model()
    rows = answered(tmp_path / "a", asked, model)
    ids = [f"{name}:{text}" for name in ("x", "y") for text in texts]
    assert [names for names, _ in model.calls] == [
        ids[:4],
        ids[4:],
        ["z:b", "z:c", f"z:{texts[0]}"],
    ]
    assert [row["benchmark"] for row in rows] == [*"xxxyyyzzz"]
    several = Model()
    answered(tmp_path / "b", evaluation(*own, samples=3, rows=4), several)
    assert several.calls == [([name], [3]) for name in ids]


def test_what_is_missing_is_answered_and_nothing_else(tmp_path):
    own = prompt_set("x", "abcdef", own=True)
    rows = answered(tmp_path / "a", evaluation(own), Model())
    log, said = tmp_path / "a/answers.jsonl", segments(tmp_path / "a")[0].read_bytes()
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))
    model = Model()
    assert answered(tmp_path / "a", evaluation(own), model) == rows
    assert [names for names, _ in model.calls] == [["x:c", "x:d"], ["x:e", "x:f"]]
    assert segments(tmp_path / "a")[0].read_bytes() == said


def test_what_was_said_is_kept_by_benchmark_and_problem(tmp_path):
    answered(tmp_path / "a", evaluation(prompt_set("a", "bc"), samples=2), Model())
    groups = list(members(tmp_path / "a", "eval"))
    names = [(each.head["benchmark"], each.head["prompt"], each.head["n"]) for each in groups]
    assert names == [("a", "a:b", 2), ("a", "a:c", 2)]
    assert [row["messages"][0]["content"] for each in groups for row in each.rows] == [*"bbcc"]


def test_an_answer_that_failed_earns_nothing_and_says_why(tmp_path):
    rows = answered(tmp_path / "a", evaluation(prompt_set("a", "bc")), Model(fails=["a:c"]))
    assert [row["answers"][0]["scores"]["faithful"] for row in rows] == [1.0, 0.0]
    assert rows[1]["answers"][0]["error"] == "ValueError: a:c"


def test_a_task_that_fails_all_answers_is_told_before_anything_is_written(tmp_path):
    asked = evaluation(prompt_set("a", "bc"))
    with pytest.raises(MetisError, match=r"all 2 answers of the first batch failed: ValueError"):
        answered(tmp_path / "a", asked, Model(fails=["a:b", "a:c"]))
    assert (tmp_path / "a/answers.jsonl").read_bytes() == b""
    assert len(answered(tmp_path / "a", asked, Model())) == 2


def test_an_evaluation_tells_how_it_asks_and_who_scores():
    found = evaluation(prompt_set("a", "bc")).described
    assert found["benchmarks"]["a"] | {"digest": ""} == {
        **{"problems": 2, "digest": "", "instruction": "Say it.", "scorer": "echo"}
    }
    assert (found["rows"], "heldout_rows" in found) == (3, False)
    own = evaluation(prompt_set("a", "bc", own=True)).described
    assert (own["heldout_rows"], "rows" in own) == (2, False)


def test_questions_that_are_not_asked_alike_have_no_instruction():
    class Mixed(Echo):
        def episode(self, prompt):
            return SingleTurn([{"role": "user", "content": f"{prompt.text} {prompt.id}"}], len)

    assert prompt_set("a", "bc", task=Mixed()).instruction is None


def test_a_task_without_words_for_its_scorer_is_named():
    assert scorer(Echo()).endswith("test_suite:Echo")
