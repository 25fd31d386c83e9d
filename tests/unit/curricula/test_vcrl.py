"""VCRL by hand: p(k), the switch of kappa, and the life of a prompt in the bank."""

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine, Trajectory
from metis.curricula.vcrl import BankEntry, Vcrl, relative_variance

EMPTY = Trajectory(np.zeros(0, int), np.zeros(0, bool), np.zeros(0, np.float32), 0)


def passes(k, n=8, prompt=None):
    rewards = (1.0,) * k + (0.0,) * (n - k)
    return Group(prompt or Prompt("x", ""), rewards, (EMPTY,) * n)


class Scripted(Engine):
    """k of n rollouts pass, by prompt; every call is remembered."""

    def __init__(self, k):
        self.k, self.asked = k, []

    def rollout(self, prompts, n):
        self.asked.append([prompt.id for prompt in prompts])
        return [passes(self.k[prompt.id], n, prompt) for prompt in prompts]


def pool(size, rewards="binary"):
    return Pool([Prompt(str(i), "") for i in range(size)], rewards)


def take(curriculum, prompts, k, step=0):
    engine = Scripted(k if isinstance(k, dict) else {p.id: k for p in prompts.prompts})
    return drive(curriculum.step(prompts, Progress(step)), engine), engine.asked


def test_p_of_k():
    assert [relative_variance(passes(k)) for k in range(9)] == [
        4 * k * (8 - k) / 64 for k in range(9)
    ]
    unbiased = [k * (5 - k) / (5 * 4) / (6 / (4 * 5)) for k in range(6)]  # G odd: (G+1) / 4G
    assert [relative_variance(passes(k, 5)) for k in range(6)] == pytest.approx(unbiased)
    assert max(unbiased) == pytest.approx(1.0)
    assert relative_variance(Group(Prompt("x", ""), (1.0,), (EMPTY,), failed=7)) == 0.0


@pytest.mark.parametrize(
    ("step", "kept"), [(0, range(1, 8)), (19, range(1, 8)), (20, range(3, 6)), (99, range(3, 6))]
)
def test_kappa_switches_at_step_20(step, kept):
    k = {str(i): i for i in range(9)}
    batch, _ = take(Vcrl(batch=9), pool(9), k, step)
    assert sorted(int(group.prompt.id) for group in batch.groups) == list(kept)
    assert batch.metrics["select/kappa"] == (0.3 if step < 20 else 0.8)
    assert batch.metrics["select/discarded"] == 8 * (9 - len(kept))


def test_one_step_by_hand():
    curriculum, prompts = Vcrl(batch=3), pool(6)
    fresh = [prompt.id for prompt in pool(6).sample(3)]
    banked = [prompt.id for prompt in prompts.prompts if prompt.id not in fresh]
    curriculum.bank = {
        banked[0]: BankEntry(0.5, 0),
        banked[1]: BankEntry(0.9, 0),
        banked[2]: BankEntry(0.7, 0),
        fresh[0]: BankEntry(1.0, 0),
    }
    k = {fresh[0]: 4, fresh[1]: 8, fresh[2]: 0, banked[0]: 4, banked[1]: 4, banked[2]: 0}
    batch, asked = take(curriculum, prompts, k, 1)
    assert asked == [fresh, [banked[1], banked[2]]]  # the two gaps: highest priorities, not drawn
    assert {group.prompt.id for group in batch.groups} == {fresh[0], banked[1]}
    assert curriculum.bank == {
        banked[0]: BankEntry(0.5, 0),
        fresh[0]: BankEntry(pytest.approx(1.0), 1),
        banked[1]: BankEntry(pytest.approx(0.9 * 0.9 + 0.1 * 1.0), 1),
    }
    assert curriculum.replayed == {banked[1]: 1, banked[2]: 1}
    assert {d.prompt.id: d.reason for d in batch.decisions} == {
        fresh[0]: "fresh",
        banked[1]: "replay",
        **dict.fromkeys([fresh[1], fresh[2], banked[2]], "below kappa"),
    }
    assert batch.metrics["select/rerolled"] == 2.0
    assert batch.metrics["select/discarded"] == 24.0


def test_a_prompt_is_replayed_twice_at_most():
    curriculum, prompts = Vcrl(batch=1, kappa_late=0.3), pool(200)
    k = {prompt.id: 0 for prompt in prompts.prompts}
    first = pool(200).sample(1)[0].id
    replays = []
    for step in range(6):
        k[first] = 4
        _, asked = take(curriculum, prompts, k, step)
        replays += asked[1:]
    assert replays == [[first], [first]]
    assert curriculum.bank == {} and curriculum.replayed == {first: 2}


def test_the_bank_is_bounded_and_keeps_the_best():
    curriculum, prompts = Vcrl(batch=6, capacity=0.5, kappa_late=0.3), pool(60)
    k = {prompt.id: 1 + int(prompt.id) % 4 for prompt in prompts.prompts}
    batch, _ = take(curriculum, prompts, k)
    best = sorted((relative_variance(group) for group in batch.groups), reverse=True)[:3]
    assert sorted((e.priority for e in curriculum.bank.values()), reverse=True) == best


def test_entries_leave_after_an_epoch_and_when_kappa_rises_above_them():
    curriculum, prompts = Vcrl(batch=2), pool(10)
    curriculum.bank = {"a": BankEntry(0.9, 0), "b": BankEntry(0.9, 1), "c": BankEntry(0.5, 1)}
    take(curriculum, prompts, 4, step=6)  # an epoch is 5 steps
    assert "a" not in curriculum.bank and {"b", "c"} < set(curriculum.bank)
    take(curriculum, prompts, 4, step=20)
    assert "c" not in curriculum.bank


def test_a_dry_bank_gives_a_short_batch_and_never_a_rejected_group():
    curriculum, prompts = Vcrl(batch=4), pool(40)
    k = {prompt.id: 4 * (i == 0) for i, prompt in enumerate(pool(40).sample(4))}
    k = {prompt.id: k.get(prompt.id, 0) for prompt in prompts.prompts}
    batch, asked = take(curriculum, prompts, k)
    assert len(batch.groups) == 1 and len(asked) == 1
    said = "3 groups were below kappa, and the bank had 0 to replay: training on 1 of 4 groups"
    assert batch.notices == [said]


def test_equal_priorities_are_popped_at_random_but_reproducibly():
    def popped(seed):
        curriculum = Vcrl(batch=1)
        curriculum.bank = {str(i): BankEntry(0.9, 0) for i in range(1, 9)}
        engine = Scripted({str(i): 0 for i in range(9)})
        prompts = Pool([Prompt(str(i), "") for i in range(9)], seed=3)
        drive(curriculum.step(prompts, Progress(0, seed=seed)), engine)
        return engine.asked[1][0]

    assert len({popped(seed) for seed in range(30)}) > 3
    assert popped(7) == popped(7)


def test_continuous_rewards_keep_the_upper_half_of_the_last_steps():
    class Spread(Engine):
        def rollout(self, prompts, n):
            rows = [(0.5 + int(p.id) / 100, 0.5 - int(p.id) / 100) for p in prompts]
            return [Group(p, row, (EMPTY,) * 2) for p, row in zip(prompts, rows, strict=True)]

    curriculum, prompts = Vcrl(batch=9, group=2, window=2), pool(9, "continuous")
    batch = drive(curriculum.step(prompts, Progress(50)), Spread())
    assert sorted(int(group.prompt.id) for group in batch.groups) == [4, 5, 6, 7, 8]
    assert batch.metrics["select/kappa"] == pytest.approx(4 * 0.04**2)
    for step in range(51, 55):
        drive(curriculum.step(prompts, Progress(step)), Spread())
    assert [len(ps) for ps in curriculum.recent] == [9, 9]


def test_what_is_kept_is_known_from_the_last_steps_before_a_step_has_ended():
    curriculum, prompts = Vcrl(batch=4, kappa=0.3, kappa_late=0.8, switch=1), pool(8)
    half, few = passes(4), passes(1)
    next(curriculum.step(prompts, Progress(0)))
    assert curriculum.keeps(half) and curriculum.keeps(few)
    next(curriculum.step(prompts, Progress(1)))
    assert curriculum.keeps(half) and not curriculum.keeps(few)
    saved = curriculum.state_dict()
    del saved["least"]
    Vcrl().load_state_dict(saved)


def test_dead_groups_are_never_kept():
    for rewards in ("binary", "continuous"):
        batch, _ = take(Vcrl(batch=4, kappa=0.0), pool(4, rewards), 8)
        assert batch.groups == []


@pytest.mark.parametrize(
    "knobs", [{"kappa": 1.5}, {"quantile": -0.1}, {"window": 0}, {"capacity": float("inf")}]
)
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Vcrl(**knobs)


def test_a_group_most_of_which_failed_has_no_p():
    def valid(rewards, failed):
        return relative_variance(Group(Prompt("x", ""), rewards, (EMPTY,) * len(rewards), failed))

    assert valid((1.0, 0.0), failed=6) == 0.0
    assert valid((1.0, 0.0, 0.0), failed=5) == 0.0
    assert valid((1.0, 0.0, 1.0, 0.0), failed=4) == 1.0


def test_chance_decides_which_of_equals_a_full_bank_keeps():
    """Else the oldest would stay, and the bank never change."""
    kept = set()
    for step in range(8):
        curriculum, prompts = Vcrl(batch=4, capacity=1.0), pool(8)
        curriculum.bank = {prompt.id: BankEntry(1.0, step) for prompt in prompts.prompts[:4]}
        take(curriculum, prompts, 4, step)
        assert len(curriculum.bank) == 4
        kept.add(frozenset(curriculum.bank))
    assert len(kept) > 1
    assert any(set(bank) - {"0", "1", "2", "3"} for bank in kept)


def test_fresh_and_rerolled_groups_are_mixed():
    places = set()
    for step in range(8):
        curriculum, prompts = Vcrl(batch=4), pool(8)
        fresh = [prompt.id for prompt in pool(8).sample(4)]
        curriculum.bank = {p.id: BankEntry(1.0, step) for p in prompts.prompts if p.id not in fresh}
        k = {p.id: 4 for p in prompts.prompts} | dict.fromkeys(fresh[:2], 0)
        batch, _ = take(curriculum, prompts, k, step)
        places |= {i for i, g in enumerate(batch.groups) if g.prompt.id not in fresh}
    assert places == {0, 1, 2, 3}
