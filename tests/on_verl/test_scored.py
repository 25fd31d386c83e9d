"""A scored judgment as one row: its gradient is that of a row for each choice, and the local one.

The network is run as verl's workers run it: rows packed behind each other, positions from 0.
"""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from integration.conftest import save_tiny
from integration.test_judge_update import (
    asked,
    choice_logprobs,
    cross_entropy,
    log_score_batch,
    same,
)
from metis.core import Continuation, Judgment, Prompt
from metis.curricula.judges.scale import PASSES, VARIANCE
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.local.update.gradients import backward, remember_old
from metis.engines.local.update.rows import local_minibatches as local_minibatches
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.verl.workers import scored
from metis.engines.verl.workers.rows import minibatch_rows
from metis.engines.verl.workers.scored import choices_loss, pack_choices, read_choices

both = pytest.mark.parametrize("scale", [VARIANCE, PASSES], ids=lambda scale: scale.name)
JUDGED = [*range(7), 0]
"""The prompts of `log_score_batch`, in the order of its judgments."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("scored"))


@pytest.fixture
def settings(folder):
    return LocalSettings(model=str(folder), device="cpu")


@pytest.fixture
def policy(folder, settings):
    return Policy(folder, settings)


@pytest.fixture
def network(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def rows_of(policy, batch, size=0):
    parts = minibatch_rows(batch, size or len(batch.groups), policy, str)
    return [[row for row in part if row.kind == "judgment"] for part in parts]


def nested(values, offsets):
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def worker_loss(network, rows):
    """The judge's loss as a worker computes it: logits first, then the value."""
    fields = [row.fields for row in rows]
    data = list_of_dict_to_tensordict(
        [{name: row[name] for name in ("input_ids", "choices")} for row in fields]
    )
    sizes = torch.tensor([len(row["input_ids"]) for row in fields])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    tokens = torch.cat([row["input_ids"] for row in fields])
    data["input_ids"] = nested(tokens, offsets)
    positions = torch.cat([row["position_ids"] for row in fields])
    logits = network(
        input_ids=tokens[None], position_ids=positions[None], attention_mask=None, use_cache=False
    ).logits
    outputs = {
        name: nested(values[0], offsets) for name, values in read_choices(logits, data).items()
    }
    coefficient = torch.tensor([row.judge.coefficient for row in rows])
    return choices_loss(outputs, data, coefficient, 0.2, 0.2)


def gradients(network):
    return {name: weight.grad.clone() for name, weight in network.named_parameters()}


def compare(network, policy, tolerance=1e-5):
    mine, other = gradients(network), gradients(policy.network)
    assert mine.keys() == other.keys()
    assert max(float(gradient.abs().max()) for gradient in mine.values()) > 1e-3
    same(mine.values(), [other[name] for name in mine], tolerance)
    policy.network.zero_grad()


@both
@pytest.mark.parametrize("clip", [False, True])
def test_one_row_has_the_gradient_of_a_row_for_each_choice_and_of_the_local_engine(
    policy, network, settings, scale, clip
):
    batch = log_score_batch(policy, scale, clip)
    [rows] = rows_of(policy, batch)
    assert len(rows) == len(JUDGED), "one for each judgment"
    worker_loss(network, rows).backward()
    cross_entropy(policy, scale, JUDGED).backward()
    compare(network, policy)
    [part] = local_minibatches(policy, batch, settings, 0)
    backward(policy, part.judgments, settings)
    compare(network, policy)


@both
def test_ratios_of_a_later_mini_batch_are_normalised_and_clipped(policy, network, settings, scale):
    chats, _, offsets = asked(scale)
    shift = torch.tensor(offsets, dtype=torch.float32)
    batch = log_score_batch(policy, scale, True)
    two = LocalSettings(model=settings.model, device="cpu", minibatch=2)
    parts = local_minibatches(policy, batch, two, 0)
    remember_old(policy, parts[1], two)
    with torch.no_grad():
        old = [torch.log_softmax(choice_logprobs(policy, chat, scale) + shift, 0) for chat in chats]
        for moved in (policy.network, network):
            draw = torch.manual_seed(0)
            for _, weight in sorted(moved.named_parameters()):
                weight.add_(0.05 * torch.randn(weight.shape, generator=draw))
    worker_loss(network, rows_of(policy, batch, 2)[1]).backward()
    cross_entropy(policy, scale, [2, 3, 5, 0], old).backward()
    compare(network, policy)
    backward(policy, parts[1].judgments, two)
    compare(network, policy)


def test_advantages_that_do_not_add_up_train_the_stem_too(policy, network, settings):
    """Without a ratio nothing is normalised: what choices begin with has a gradient of its own."""
    batch = log_score_batch(policy, VARIANCE, False)
    pushed = [
        Judgment(row.prompt, row.trajectory, row.advantage + 0.1, row.weight, False, row.key)
        for row in batch.judgments
    ]
    batch = type(batch)(batch.groups, pushed)
    [rows] = rows_of(policy, batch)
    worker_loss(network, rows).backward()
    [part] = local_minibatches(policy, batch, settings, 0)
    backward(policy, part.judgments, settings)
    compare(network, policy)


@both
def test_a_row_has_the_context_once_for_each_inner_path(policy, scale):
    """`\\boxed{0.` and three first digits in bytes; one digit."""
    [rows] = rows_of(policy, log_score_batch(policy, scale, True))
    chats, _, _ = asked(scale)
    sequences = {VARIANCE: [r"\boxed{0.0", r"\boxed{0.1", r"\boxed{0.2"], PASSES: [""]}[scale]
    for row, prompt in zip(rows, JUDGED, strict=True):
        context = policy.encode_chat(chats[prompt])
        wanted = [context + policy.encode_reply(text) for text in sequences]
        assert row.fields["input_ids"].tolist() == [token for one in wanted for token in one]
        assert row.fields["position_ids"].tolist() == [i for one in wanted for i in range(len(one))]
        assert row.several is (scale is VARIANCE)
        assert row.tag["response_len"] == 1 and row.update_only
        assert not row.fields["judge_mask"].any() and not row.fields["response_mask"].any()


def test_a_choice_may_begin_another():
    tree, logprobs = ChoiceTree.of([[5], [5, 6], [7, 8]]), [-1.0, -3.0, -2.0]
    choices = [Continuation([], "?", logprob) for logprob in logprobs]
    rows = [(Judgment(Prompt("a", "a"), choice, 0.1, clip=True), choice) for choice in choices]
    laid = pack_choices([1, 2], tree, rows)
    assert laid.tokens.tolist() == [1, 2, 5, 1, 2, 7]
    assert laid.positions.tolist() == [0, 1, 2, 0, 1, 2]
    assert laid.choices.place.tolist() == [1, 2, 1, 5]
    assert laid.choices.slot.tolist() == [0, 0, 1, 0]
    assert laid.choices.token.tolist() == [5, 6, 7, 8]
    assert [laid.choices.terms.old[path].sum() for path in tree.paths] == pytest.approx(logprobs)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_share_a_sequence_read_all_of_it_together(policy, network, monkeypatch, ranks):
    """Ulysses gives each rank a slice of the packed tokens; what they read adds up to the whole."""
    [rows] = rows_of(policy, log_score_batch(policy, VARIANCE, True))
    fields = [row.fields for row in rows]
    tokens = torch.cat([row["input_ids"] for row in fields])
    data = list_of_dict_to_tensordict(
        [{"input_ids": row["input_ids"], "choices": row["choices"]} for row in fields]
    )
    logits = torch.randn(1, len(tokens), 300, generator=torch.manual_seed(0))
    whole = read_choices(logits, data)
    padded = torch.nn.functional.pad(logits, (0, 0, 0, -len(tokens) % ranks))
    size = padded.shape[1] // ranks
    found = {name: [] for name in whole}
    for rank in range(ranks):
        part = slice(rank * size, (rank + 1) * size)

        def cut(places, sp_size, pad_value, part=part):
            places = torch.nn.functional.pad(
                places, (0, -places.shape[1] % sp_size), value=pad_value
            )
            return places[:, part], None, 0

        monkeypatch.setattr(scored, "ulysses_pad_and_slice_inputs", cut)
        scored.tensordict_utils.assign_non_tensor(data, sp_size=ranks)
        for name, values in read_choices(padded[:, part], data).items():
            found[name].append(values)
    for name, values in whole.items():
        assert torch.allclose(torch.cat(found[name], 1)[:, : len(tokens)], values)
        assert np.count_nonzero(values.numpy()) > 0
