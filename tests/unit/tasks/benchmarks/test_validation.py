"""Benchmarks as the test of a run: what is asked, who scores, and what is also trained on."""

import json

import pytest

from metis.tasks.benchmarks import catalogue
from metis.tasks.benchmarks.validation import Validated, benchmark
from metis.tasks.math import Math, build


def write(path, texts, answer="1"):
    path.parent.mkdir(exist_ok=True)
    rows = [{"problem": text, "answer": answer} for text in texts]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def math(path, **knobs):
    return build(Math(path, heldout=1, **{"verify": False, **knobs}), seed=0)


def test_problems_that_are_also_trained_on_are_counted_not_refused(tmp_path):
    train = write(tmp_path / "a.jsonl", [f"Same {n}?" for n in range(9)])
    both = write(tmp_path / "b.jsonl", [*(f"same ${n}$" for n in range(9)), "other"])
    task = Validated(math(train), [both])
    [notice] = task.notices
    assert "benchmark b: 8 of its 10 problems are also trained on" in notice
    assert len(task.heldout()) == 10 and len(task.training()) == 8


def test_a_limit_draws_the_problems_that_an_evaluation_draws(tmp_path):
    train = write(tmp_path / "a.jsonl", ["One?", "Two?"])
    test = write(tmp_path / "b.jsonl", [f"Test {n}?" for n in range(50)])
    [whole] = catalogue.load([test])
    drawn = Validated(math(train), [test], 7).heldout()
    assert [p.text for p in drawn] == [p.text for p in whole.sample(7, seed=0).prompts]
    assert len(Validated(math(train), [test], 99).heldout()) == 50


def test_files_of_one_name_are_kept_apart(tmp_path):
    train = write(tmp_path / "train/data.jsonl", [f"Train {n}?" for n in range(5)])
    test = write(tmp_path / "test/data.jsonl", [f"Test {n}?" for n in range(5)], "2")
    task = Validated(math(train), [test])
    assert task.notices == []
    prompts = [*task.training(), *task.heldout()]
    assert len({prompt.id for prompt in prompts}) == 9
    assert {benchmark(prompt.id) for prompt in task.heldout()} == {"data"}
    for prompt in prompts:
        episode = task.episode(prompt)
        assert prompt.text in episode.chat[0]["content"]
        episode.reply("\\boxed{2}")
        assert episode.reward() == float(prompt.text.startswith("Test"))


def test_the_run_s_own_verifier_and_instruction_are_used(tmp_path):
    pytest.importorskip("math_verify")
    train = write(tmp_path / "a.jsonl", ["One?", "Two?"])
    test = write(tmp_path / "b.jsonl", ["Three?"], "2\\sqrt{3}")
    inner = math(train, verify=True, verify_limit=0.5, instruction="Box it.")
    asked = []
    inner.verifier.same = lambda answer, reference: asked.append(answer) is None
    task = Validated(inner, [test])
    episode = task.episode(task.heldout()[0])
    assert episode.chat[0]["content"] == "Three?\nBox it."
    episode.reply("\\boxed{\\sqrt{12}}")
    assert episode.reward() == 1.0 and asked == ["\\sqrt{12}"]
