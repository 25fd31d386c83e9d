"""ADCL: the order of chunks, what is measured when, and being stopped while measuring."""

import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine
from metis.core import state as states
from metis.curricula.adcl import Adcl

PASSES = {"a": 0, "b": 4, "c": 2, "d": 3, "e": 1, "f": 4}
"""Passes among 4 rollouts of each prompt."""


class Scripted(Engine):
    """Answers with rewards given by the test, and keeps what was asked."""

    def __init__(self, rewards):
        self.rewards, self.asked = rewards, []

    def rollout(self, prompts, n):
        self.asked.append(("".join(prompt.id for prompt in prompts), n))
        rewards = [tuple(self.rewards(prompt.id, n)) for prompt in prompts]
        return [
            Group(prompt, row, (None,) * len(row), failed=n - len(row))
            for prompt, row in zip(prompts, rewards, strict=True)
        ]


def passing(passes):
    return lambda prompt, n: [1.0] * passes[prompt] + [0.0] * (n - passes[prompt])


def pool_of(names, rewards="binary"):
    return Pool([Prompt(name, name) for name in names], rewards=rewards)


def run(curriculum, pool, engine, steps, start=0, seed=0):
    return [
        drive(curriculum.step(pool, Progress(step, seed=seed)), engine)
        for step in range(start, start + steps)
    ]


def trained(batches):
    return ["".join(group.prompt.id for group in batch.groups) for batch in batches]


def test_it_measures_all_then_trains_from_easy_to_hard_chunk_by_chunk():
    """By hand: d is 1, 0, .5, .25, .75, 0, so the order is {b, f}, d | c, e, a."""
    engine = Scripted(passing(PASSES))
    curriculum = Adcl(batch=2, group=8, chunks=2, measure=4)
    batches = run(curriculum, pool_of("abcdef"), engine, 7)
    assert engine.asked[:2] == [("abcd", 4), ("ef", 4)]
    assert set(trained(batches)[2]) == {"b", "f"}
    assert trained(batches)[3] == "d"
    assert [set(engine.asked[4][0]), engine.asked[4][1]] == [set("cea"), 4]
    assert trained(batches)[5:] == ["ce", "a"]
    assert [batch.metrics["select/discarded"] for batch in batches] == [16, 8, 0, 0, 12, 0, 0]
    measured = [batch.metrics.get("select/measured") for batch in batches]
    assert measured == [4, 6, None, None, 3, None, None]
    assert [batch.metrics["select/chunk"] for batch in batches] == [0, 0, 1, 1, 2, 2, 2]
    assert [len(batch.decisions) for batch in batches] == [4, 2, 2, 1, 3, 2, 1]
    assert batches[0].notices == ["2 steps measure 6 prompts before training begins"]
    assert batches[1].notices == ["chunk 1 of 2, epoch 1: measured, training on it from here"]
    assert [bool(batch.notices) for batch in batches[2:]] == [False, False, True, False, False]


def test_a_chunk_is_measured_again_before_its_turn_and_keeps_its_members():
    passes = dict(PASSES)
    engine = Scripted(passing(passes))
    curriculum = Adcl(batch=3, group=8, chunks=2, measure=4)
    pool = pool_of("abcdef")
    first = run(curriculum, pool, engine, 2)
    assert set(trained(first)[1]) == {"b", "f", "d"}
    passes |= {"c": 0, "e": 4, "a": 3, "b": 0, "f": 2, "d": 4}
    second = run(curriculum, pool, engine, 5, start=2)
    assert trained(second) == ["", "eac", "", "dfb", ""]
    assert [batch.metrics["select/epoch"] for batch in second] == [1, 1, 2, 2, 2]


def test_a_second_epoch_measures_the_first_chunk_again():
    engine = Scripted(passing(PASSES))
    curriculum = Adcl(batch=6, group=4, chunks=1, measure=4)
    batches = run(curriculum, pool_of("abcdef"), engine, 4)
    assert [len(batch.groups) for batch in batches] == [0, 6, 0, 6]
    assert [sorted(asked) for asked, _ in engine.asked] == [sorted("abcdef")] * 4
    assert [batch.metrics["select/epoch"] for batch in batches] == [1, 1, 2, 2]


def test_ties_are_broken_by_the_seed_not_by_the_order_of_the_data():
    def order(seed):
        engine = Scripted(lambda prompt, n: [0.0] * n)
        curriculum = Adcl(batch=20, group=4, chunks=1, measure=4)
        return trained(run(curriculum, pool_of("abcdefghijklmnopqrst"), engine, 2, seed=seed))[1]

    orders = {order(seed) for seed in range(5)}
    assert len(orders) == 5 and "abcdefghijklmnopqrst" not in orders
    assert order(0) == order(0)


def test_continuous_rewards_are_ordered_by_variance():
    """By hand: a constant 0 or .9 has variance 0; .4 and .6 have .01; 0 and 1 have .25."""
    rewards = {"a": (0.0, 1.0), "b": (0.4, 0.6), "c": (0.9, 0.9)}
    engine = Scripted(lambda prompt, n: list(rewards[prompt]) * (n // 2))
    curriculum = Adcl(batch=3, group=4, chunks=1, measure=4)
    assert trained(run(curriculum, pool_of("abc", "continuous"), engine, 2))[1] == "cba"
    assert curriculum.measured == pytest.approx([0.25, 0.01, 0.0])
    forced = Adcl(batch=3, group=4, chunks=1, measure=4, difficulty="one_minus_mean")
    run(forced, pool_of("abc", "continuous"), engine, 1)
    assert forced.measured == pytest.approx([0.5, 0.5, 0.1])


def test_variance_can_be_chosen_for_binary_rewards():
    engine = Scripted(passing(PASSES))
    curriculum = Adcl(batch=6, group=4, chunks=1, measure=4, difficulty="variance")
    run(curriculum, pool_of("abcdef"), engine, 1)
    assert curriculum.measured == [0.0, 0.0, 0.25, 0.1875, 0.1875, 0.0]


def test_a_prompt_that_could_not_be_measured_comes_last():
    engine = Scripted(lambda prompt, n: [] if prompt == "b" else [0.0] * n)
    curriculum = Adcl(batch=3, group=4, chunks=1, measure=4)
    assert trained(run(curriculum, pool_of("abc"), engine, 2))[1][-1] == "b"


@pytest.mark.parametrize("cut", range(1, 12))
def test_it_goes_on_where_it_was_stopped_also_while_measuring(cut, tmp_path):
    def fresh():
        return Adcl(batch=1, group=4, chunks=3, measure=4), pool_of("abcdef")

    straight_engine = Scripted(passing(PASSES))
    straight = run(*fresh(), straight_engine, 16)

    engine, (curriculum, pool) = Scripted(passing(PASSES)), fresh()
    first = run(curriculum, pool, engine, cut)
    states.save_state(tmp_path / "state", curriculum.state_dict())
    resumed, pool = fresh()
    resumed.load_state_dict(states.load_state(tmp_path / "state"))
    second = run(resumed, pool, engine, 16 - cut, start=cut)
    assert engine.asked == straight_engine.asked
    assert trained(first + second) == trained(straight)
    assert [b.metrics for b in first + second] == [b.metrics for b in straight]


def test_more_chunks_than_prompts_are_as_many_as_prompts():
    engine = Scripted(passing(PASSES))
    batches = run(Adcl(batch=4, group=4), pool_of("abc"), engine, 8)
    assert [len(batch) for batch in trained(batches)] == [0, 1, 0, 1, 0, 1, 0, 1]


def test_a_measuring_step_has_no_more_rollouts_than_a_training_step():
    engine = Scripted(passing(dict.fromkeys("abcdefghijklmnopqrst", 0)))
    run(Adcl(batch=4, group=8, measure=5), pool_of("abcdefghijklmnopqrst"), engine, 4)
    assert all(len(prompts) * n <= 32 for prompts, n in engine.asked)


@pytest.mark.parametrize("knob", [{"chunks": 0}, {"measure": 1}])
def test_impossible_knobs_are_refused(knob):
    with pytest.raises(MetisError, match=next(iter(knob))):
        Adcl(**knob)


@pytest.mark.parametrize(("total", "said"), [(3, "100%"), (4, "75%"), (30, None)])
def test_measuring_that_takes_much_of_the_budget_is_told_early(total, said):
    """Six prompts, two a step."""
    curriculum, pool, engine = Adcl(batch=2, group=4), pool_of("abcdef"), Scripted(passing(PASSES))
    batches = [
        drive(curriculum.step(pool, Progress(step, step / total)), engine) for step in range(2)
    ]
    assert len(batches[0].notices) == 1
    assert [text[:28] for text in batches[1].notices] == (
        [f"measuring takes about {said} of"[:28]] if said else []
    )
