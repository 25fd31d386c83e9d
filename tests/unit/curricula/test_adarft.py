"""The target by hand, what is nearest to it, and where difficulties come from."""

import math

import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, Selector, drive
from metis.core import Engine
from metis.curricula.adarft import Adarft


class Constant(Engine):
    """Every rollout has the same reward."""

    def __init__(self, reward):
        self.reward, self.asked = reward, []

    def rollout(self, prompts, n):
        self.asked.append([prompt.id for prompt in prompts])
        return [Group(prompt, (self.reward,) * n) for prompt in prompts]


def pool(*difficulties):
    return Pool([Prompt(str(i), f"text {i}", "", d) for i, d in enumerate(difficulties)])


def walk(curriculum, prompts, engine, steps=1, start=0):
    return [
        drive(curriculum.step(prompts, Progress(i)), engine) for i in range(start, start + steps)
    ]


def test_the_paper_s_first_step_by_hand():
    """Difficulties of 0 .. 100, so that eta is 50, T = 0, and a mean reward of 0.75:
    T becomes 50 tanh(2 (0.75 - 0.5)) = 50 * 0.462117 = 23.106."""
    prompts = pool(0, 20, 40, 60, 80, 100)
    curriculum, engine = Adarft(batch=2, group=4), Constant(0.75)
    (batch,) = walk(curriculum, prompts, engine)
    assert {group.prompt.id for group in batch.groups} == {"0", "1"}
    assert curriculum.target == pytest.approx(23.106, abs=1e-3)
    assert batch.metrics == {
        "select/target": 0.0,
        "select/difficulty": 10.0,
        "select/discarded": 0.0,
    }
    (batch,) = walk(curriculum, prompts, engine, start=1)
    assert {group.prompt.id for group in batch.groups} == {"1", "2"}  # 20 and 40
    assert curriculum.target == pytest.approx(46.212, abs=1e-3)


def test_the_target_falls_stands_still_and_stays_in_range():
    curriculum = Adarft(batch=2, group=4)
    walk(curriculum, pool(0, 50, 100), Constant(0.5))
    assert curriculum.target == 0.0

    def moved(target, *rewards):
        return curriculum.moved(target, [Group(Prompt("x", ""), rewards)] if rewards else [])

    assert moved(50, 0.0) == pytest.approx(50 - 50 * math.tanh(1))
    assert moved(90, 1.0) == 100.0 and moved(10, 0.0) == 0.0
    assert moved(50, 1.0, 0.0) == 50.0 and moved(50) == 50.0


def test_ties_are_broken_at_random():
    prompts = pool(*[0.0] * 30, 1.0)
    curriculum, engine = Adarft(batch=2, group=2), Constant(0.5)
    walk(curriculum, prompts, engine, 20)
    assert len({name for asked in engine.asked for name in asked}) > 15


def test_a_multiplier_draws_from_more_of_the_nearest():
    prompts = pool(*range(10))
    engine = Constant(0.5)
    walk(Adarft(batch=2, group=2, multiplier=3), prompts, engine, 30)
    assert {name for asked in engine.asked for name in asked} == set("012345")
    assert all(len(set(asked)) == 2 for asked in engine.asked)
    engine = Constant(0.5)
    walk(Adarft(batch=2, group=2), prompts, engine, 5)
    assert {name for asked in engine.asked for name in asked} == {"0", "1"}


def test_difficulties_that_are_lacking_are_measured():
    class Half(Constant):
        def rollout(self, prompts, n):
            self.asked.append([prompt.id for prompt in prompts])
            return [Group(prompt, (float(prompt.id == "1"),) * n) for prompt in prompts]

    curriculum, engine = Adarft(batch=2, group=2, measure=2), Half(0.0)
    assert curriculum.needs.in_turn
    batches = walk(curriculum, pool(None, None, None), engine, 3)
    assert engine.asked[:2] == [["0", "1"], ["2"]]
    assert curriculum.difficulty.tolist() == [1.0, 0.0, 1.0] and not curriculum.needs.in_turn
    assert batches[2].metrics["select/target"] == 0.0 and "1" in engine.asked[2]


def test_a_file_counts_more_than_the_data(tmp_path):
    path = tmp_path / "outcomes.jsonl"
    path.write_text('{"prompt": "0", "rewards": [0, 0]}\n{"prompt": "1", "rewards": [1, 0]}\n')
    curriculum = Adarft(batch=1, group=2, rates=str(path))
    walk(curriculum, pool(0.1, 0.9), Constant(1.0))
    assert curriculum.difficulty.tolist() == [1.0, 0.5]


def test_a_selector_takes_late_outcomes_where_the_data_has_difficulties():
    rows = [{"prompt": f"text {i}", "difficulty": i} for i in range(8)]
    selector = Selector(rows, "adarft", batch=2, group=2)
    first, second = selector.propose(), selector.propose()
    assert all(selector.observe(pick.id, [1.0, 1.0]) for pick in [*first, *second])
    assert selector.metrics()["select/target"] == 0.0
    selector.propose()
    assert selector._source.curriculum.target == pytest.approx(2 * 3.5 * math.tanh(1))


@pytest.mark.parametrize("knobs", [{"eta": 0}, {"alpha": 0}, {"beta": 2}, {"multiplier": 0}])
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Adarft(**knobs)
