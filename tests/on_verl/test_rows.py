"""Rows of an update: mini-batches of prompts, whole on every rank, with judgments beside them."""

import math
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from letters import Letters
from metis import Batch, Group, MetisError, Prompt
from metis.core import Continuation, Judgment, Trajectory
from metis.curricula.judges.scale import PASSES, VARIANCE
from metis.engines.verl.servers.rollouts import Output, _group
from metis.engines.verl.workers.lengths import check_lengths
from metis.engines.verl.workers.rows import judge_share, minibatch_rows, order_rows

CHAT = [{"role": "user", "content": "???"}]


def trajectory(prompt=3, answer=2, earlier=(), policy=0):
    size = prompt + answer
    mask = np.arange(size) >= prompt
    return Trajectory(np.arange(size), mask, np.where(mask, -1.5, 0).astype("f4"), policy, earlier)


def cut(batch, size=2):
    return minibatch_rows(batch, size, Letters(), lambda prompt: f"answer to {prompt}")


def group(name, rewards, **kind):
    return Group(
        Prompt(name, name), tuple(rewards), tuple(trajectory(**kind) for _ in rewards), failed=1
    )


def test_a_judgment_is_in_the_mini_batch_of_its_prompt():
    groups = [group(name, [0.0, 1.0]) for name in "abc"]
    judgments = [Judgment(g.prompt, trajectory(), 0.5, weight=0.25) for g in groups]
    first, second = cut(Batch(groups, judgments))
    assert [Counter(row.kind for row in part) for part in (first, second)] == [
        {"rollout": 4, "judgment": 2},
        {"rollout": 2, "judgment": 1},
    ]
    judge = first[4].judge
    assert (judge.advantage, judge.coefficient, judge.rollouts) == (0.5, 0.25 / 2, 4)
    assert second[-1].judge.coefficient == 0.25
    assert judge_share([first, second]) == 1 / 3 and judge_share([]) == 0


def judged_again(name, key, scale=VARIANCE):
    """A scored judgment: a row for each of its answers, in a chat of its own."""
    chat = [{"role": "user", "content": f"{name}{key}"}]
    return [
        Judgment(Prompt(name, name), Continuation(chat, text, -2.0), 0.5, 0.3, clip=True, key=key)
        for text in scale.choices
    ]


@pytest.mark.parametrize("scale", [VARIANCE, PASSES], ids=lambda scale: scale.name)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_judgment_of_a_batch_reaches_a_row(size, scale):
    """This step's, replayed ones, and two of one prompt, whatever the mini-batches."""
    groups = [group(name, [0.0, 1.0]) for name in "abcde"]
    named = [(name, "") for name in "abcde"]
    named += [("a", "step 1"), ("a", "step 2"), ("y", "step 1"), ("z", "step 2"), ("elsewhere", "")]
    judgments = [row for name, key in named for row in judged_again(name, key, scale)]
    parts = minibatch_rows(Batch(groups, judgments), size, Letters(), str)
    assert len(parts) == math.ceil(5 / size)
    found, counts = Counter(), []
    for part in parts:
        rows = [row for row in part if row.kind == "judgment"]
        assert {row.judge.coefficient for row in rows} == {1 / len(rows)}
        counts.append(len(rows))
        for row in rows:
            terms = row.scored.choices.terms
            assert len(terms.advantage) == len(scale.choices)
            assert (terms.coefficient == 0.3).all() and (terms.advantage == 0.5).all()
            context = len(row.scored.tokens) // (3 if scale is VARIANCE else 1)
            context -= len(r"\boxed{0.0") if scale is VARIANCE else 0
            found[bytes(row.scored.tokens[:context].tolist()).decode()] += 1
    assert found == Counter(f"{name}{key}" for name, key in named)
    spare = [n - len(groups[i * size :][:size]) for i, n in enumerate(counts)]
    assert max(spare) - min(spare) <= 1, "replayed judgments are dealt evenly"


def test_a_mini_batch_may_have_judgments_alone():
    """Its rollouts failed, or are single; verl divides by their number all the same."""
    none = Group(Prompt("a", "a"), (), (), failed=4)
    judgments = [*judged_again("y", "step 1"), *judged_again("z", "step 1")]
    first, second = cut(Batch([none, group("b", [0.0, 1.0])], judgments), size=1)
    assert Counter(row.kind for row in first) == {"judgment": 1}
    assert {row.judge.rollouts for row in first} == {1.0}
    assert Counter(row.kind for row in second) == {"rollout": 2, "judgment": 1}
    assert not cut(Batch([none, group("b", [1.0])], judgments)), "no rollout, no step of verl's"


def test_failed_rollouts_are_no_rows_and_a_single_one_has_no_advantage():
    (part,) = cut(Batch([group("a", [1.0]), group("b", [0.0, 1.0, 1.0])]))
    assert len({row.uid for row in part}) == 1 and len(part) == 3
    assert part[0].judge.rollouts == 4, "the denominator counts every rollout with a reward"
    assert not cut(Batch([group("a", [1.0])]))


def test_the_outputs_of_a_rollout_share_its_session():
    earlier = (trajectory(4, 1), trajectory(5, 2))
    (part,) = cut(Batch([group("a", [0.0, 1.0], earlier=earlier)]))
    assert [(row.session, row.index, row.reward) for row in part] == [
        *((0, i, 0.0) for i in range(3)),
        *((1, i, 1.0) for i in range(3)),
    ]
    assert all(row.key == f"{row.uid}_{row.session}_{row.index}" for row in part)


def test_columns_of_rollouts_judgments_and_padding():
    one = group("a", [0.0, 1.0])
    judgments = [
        Judgment(one.prompt, trajectory(4, 3), -0.2, 0.5, clip=True),
        Judgment(one.prompt, Continuation(CHAT, "1", -2.0), 0.3, 0.1, clip=True),
        Judgment(one.prompt, Continuation(CHAT, "2", -1.0), 0.0, 0.1, clip=True),
    ]
    rows = order_rows(cut(Batch([one], judgments)), ranks=2, multiple=1, filler=7)
    names = ["rollout", "reply", "choices", "padding"]
    kinds = dict.fromkeys(names)
    for row in rows:
        kinds["choices" if row.scored else "reply" if row.kind == "judgment" else row.kind] = row
    assert Counter(row.kind for row in rows) == {"rollout": 2, "judgment": 2, "padding": 2}
    rollout, reply, choices, padding = (kinds[name].fields for name in names)
    assert rollout["responses"].tolist() == [3, 4] and rollout["prompts"].tolist() == [0, 1, 2]
    assert rollout["rollout_log_probs"].tolist() == [-1.5, -1.5]
    assert rollout["response_mask"].tolist() == [1, 1] and not rollout["judge_mask"].any()
    assert rollout["reward_model"] == {"ground_truth": "answer to a"}
    assert reply["judge_mask"].tolist() == [1, 1, 1] and not reply["response_mask"].any()
    assert torch.allclose(reply["judge"], torch.tensor([-0.2, 0.5, 1.0, 2.0]))
    assert choices["input_ids"].tolist() == [ord("?")] * 3 and len(choices["responses"]) == 1
    packed = pickle.loads(choices["choices"])
    assert packed.token.tolist() == [ord("1"), ord("2")] and packed.place.tolist() == [2, 2]
    assert packed.terms.old.tolist() == [-2.0, -1.0], "as the servers had them"
    assert choices["judge"].tolist() == [0, 1, 0, 2]
    for fields in (choices, padding):
        for mask in ("response_mask", "loss_mask", "judge_mask"):
            assert not fields[mask].any()
    assert padding["judge"].tolist() == [0, 0, 0, 2]
    assert {row.fields.keys() == rollout.keys() for row in rows} == {True}


def test_a_judgment_without_an_advantage_is_no_row():
    one = group("a", [0.0, 1.0])
    flat = [Judgment(one.prompt, Continuation(CHAT, text, -2.0), 0.0) for text in "12"]
    [part] = cut(Batch([one], [*flat, Judgment(one.prompt, trajectory(), 0.0)]))
    assert Counter(row.kind for row in part) == {"rollout": 2}


def test_what_only_the_update_reads_counts_for_less_of_the_work():
    one = group("a", [0.0, 1.0])
    scored = [Judgment(one.prompt, Continuation(CHAT, text, -2.0), 0.5) for text in "12"]
    parts = cut(Batch([one], scored))
    assert judge_share(parts) == 3 / (3 + 2 * 5)
    assert judge_share(parts, forward=1) == 3 * 3 / (3 * 3 + 4 * 2 * 5)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=9),
    minibatch=st.integers(1, 4),
    ranks=st.integers(1, 4),
    multiple=st.integers(1, 3),
    scored=st.integers(1, 3),
)
def test_verl_s_cut_by_rank_and_order_gives_back_the_mini_batches(
    sizes, minibatch, ranks, multiple, scored
):
    groups = [group(str(i), [float(j % 2) for j in range(n)]) for i, n in enumerate(sizes)]
    judgments = [Judgment(g.prompt, trajectory(), 1.0) for g in groups]
    for g in groups[::scored]:
        judgments += [Judgment(g.prompt, Continuation(CHAT, text, -1.0), 0.5) for text in "12"]
    parts = cut(Batch(groups, judgments), minibatch)
    rows = order_rows(parts, ranks, multiple, filler=7)
    assert len(rows) % (ranks * len(parts) * multiple) == 0
    share = len(rows) // ranks
    size = share // len(parts)
    for i, part in enumerate(parts):
        found = [
            row
            for rank in range(ranks)
            for row in rows[rank * share + i * size : rank * share + (i + 1) * size]
        ]
        assert {row.key for row in found if row.kind != "padding"} == {row.key for row in part}
        assert {row.judge.rollouts for row in found} == {part[0].judge.rollouts}
    assert len({row.key for row in rows}) == len(rows)
    before = [row for row in rows if not row.update_only]
    by_rank = len(before) // ranks
    assert by_rank % multiple == 0
    for rank in range(ranks):
        mine = {row.key for row in rows[rank * share : (rank + 1) * share]}
        assert {row.key for row in before[rank * by_rank : (rank + 1) * by_rank]} <= mine, (
            "old log-probabilities are computed by the rank that trains on them"
        )


def test_a_row_that_no_pass_can_hold_is_refused():
    rows = cut(Batch([group("a", [0.0, 1.0])]))[0]
    check_lengths(rows, 5)
    with pytest.raises(
        MetisError, match=r"ppo_max_token_len_per_gpu .* 4 tokens, and a rollout has 5"
    ):
        check_lengths(rows, 4)


def test_a_reward_that_is_no_number_marks_its_rollout_failed():
    rewards = enumerate([1.0, float("nan"), 0.5])
    found = {i: [Output(trajectory(), reward, False, {}, [], {})] for i, reward in rewards}
    asked = [{"role": "user", "content": "a"}]
    made = _group(Prompt("a", "a"), asked, found, 4)
    assert (made.rewards, made.failed, len(made.trajectories)) == ((1.0, 0.5), 2, 2)
