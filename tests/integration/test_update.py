"""The update against references of a few lines: loss, gradients, mini-batches, failures."""

import contextlib
import inspect
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import torch._inductor.exc
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

from metis import Batch, Group, MetisError, Prompt
from metis.core import Continuation, Judgment, Trajectory
from metis.curricula.judges.prompt import turns
from metis.curricula.judges.scale import GRID, VARIANCE
from metis.engines.local.engine import LocalEngine
from metis.engines.local.model import compiling
from metis.engines.local.update.gradients import backward, passes, prefix_groups, remember_old
from metis.engines.local.update.rows import local_minibatches
from metis.engines.local.update.stopwatch import Stopwatch
from metis.engines.tokens.packing import ONE_BATCH, Layout
from metis.signal import advantages, judge_reward
from metis.tasks.arithmetic import Arithmetic, build
from scripted import exemplar
from traced import compile_with

InductorError = getattr(torch._inductor.exc, "InductorError", None)
"""What torch's own compiler raises, from 2.7 on."""

PROMPTS = [Prompt(f"p{i}", f"text {i}") for i in range(4)]
REWARDS = [(1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.25, 0.75, 0.5), (0.0, 0.0, 1.0)]
CHAT = [{"role": "system", "content": "judge"}, {"role": "user", "content": "What is 2 + 2?"}]


@pytest.fixture(params=["few rows a pass", "wide passes", "packed passes"])
def policy(policy, request):
    """All ways to cut rows into passes: a CPU's, and a GPU's with and without padding."""
    policy.wide = request.param != "few rows a pass"
    policy.packs = request.param == "packed passes"
    return policy


def trajectory(seed: int, prompt: int, answer: int, policy: int = 0) -> Trajectory:
    draw = np.random.default_rng(seed)
    tokens = np.concatenate([np.arange(10, 10 + prompt), draw.integers(0, 250, answer)])
    mask = np.arange(prompt + answer) >= prompt
    logprobs = np.where(mask, -2.0, 0.0).astype(np.float32)
    return Trajectory(tokens, mask, logprobs, policy)


def groups(policy: int = 0) -> list[Group]:
    return [
        Group(prompt, rewards, tuple(trajectory(7 * i + j, 5, 2 + j, policy) for j in range(3)))
        for i, (prompt, rewards) in enumerate(zip(PROMPTS, REWARDS, strict=True))
    ]


def logprob(policy, tokens) -> torch.Tensor:
    ids = torch.tensor(np.asarray(tokens))[None]
    logits = policy.network(input_ids=ids).logits[0, :-1]
    return torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0]


def gradients(policy) -> list[torch.Tensor]:
    found = [p.grad.clone() for p in policy.trainable]
    policy.network.zero_grad()
    return found


def ours(policy, batch, settings, version=0):
    losses = [
        backward(policy, p.items, settings)
        for p in local_minibatches(policy, batch, settings, version)
    ]
    return sum(loss.policy + loss.judge for loss in losses), gradients(policy)


def same(one, other, tolerance=1e-6):
    for a, b in zip(one, other, strict=True):
        assert torch.allclose(a, b, atol=tolerance), float((a - b).abs().max())


def reference_policy_loss(policy, batch, old=None, low=0.2, high=0.2) -> torch.Tensor:
    """GRPO's: mean over tokens, then over all rollouts, those without an advantage included."""
    total, count = torch.zeros(()), 0
    for group in batch:
        for a, t in zip(advantages(group.rewards), group.trajectories, strict=True):
            now = logprob(policy, t.tokens)[t.loss_mask[1:]]
            ratio = torch.exp(now - (now.detach() if old is None else old))
            clipped = ratio.clamp(1 - low, 1 + high)
            total = total - torch.minimum(ratio * float(a), clipped * float(a)).mean()
            count += 1
    return total / count


def test_loss_and_gradient_equal_the_reference(policy, settings):
    value, found = ours(policy, Batch(groups()), settings)
    reference = reference_policy_loss(policy, groups())
    reference.backward()
    assert value == pytest.approx(reference.item(), abs=1e-6)
    same(found, gradients(policy))


def ragged() -> list[Group]:
    """Groups of 2, 7 and 4 rollouts, and one with a single reward."""
    rewards = [(1.0, 0.0), (1.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.25), (0.0, 1.0, 1.0, 1.0), (1.0,)]
    return [
        Group(prompt, row, tuple(trajectory(50 * i + j, 5, 2 + j % 4) for j in range(len(row))))
        for i, (prompt, row) in enumerate(zip(PROMPTS, rewards, strict=True))
    ]


def test_the_gradient_of_groups_of_several_sizes_is_a_loop_over_them(policy, settings):
    value, found = ours(policy, Batch(ragged()), settings)
    rollouts = sum(len(group.rewards) for group in ragged())
    total = torch.zeros(())
    for group in ragged():
        total = total + reference_policy_loss(policy, [group]) * len(group.rewards) / rollouts
    total.backward()
    assert value == pytest.approx(total.item(), abs=1e-6)
    same(found, gradients(policy))


def test_stale_rollouts_are_clipped_against_the_policy_that_wrote_them(policy, settings):
    value, found = ours(policy, Batch(groups(policy=0)), settings, version=1)
    reference = reference_policy_loss(policy, groups(), old=torch.tensor(-2.0))
    reference.backward()
    assert value == pytest.approx(reference.item(), abs=1e-6)
    same(found, gradients(policy))


def test_a_group_drawn_in_two_goes_has_the_right_denominator_for_each(policy, settings):
    old, new = groups(policy=0)[0], groups(policy=1)[0]
    (part,) = local_minibatches(policy, Batch([old + new]), settings, version=1)
    known = [None if item.terms.old is None else list(item.terms.old) for item in part.items]
    assert known == [[-2.0] * 2, [-2.0] * 3, [-2.0] * 4, None, None, None]


def test_the_clip_may_be_asymmetric(policy, settings):
    wide = replace(settings, clip_high=3.0)
    _, found = ours(policy, Batch(groups()), wide, version=1)
    reference_policy_loss(policy, groups(), old=torch.tensor(-2.0), high=3.0).backward()
    same(found, gradients(policy))


def test_the_sequence_ratio_is_gspo(policy, settings):
    gspo = replace(settings, ratio="sequence")
    _, found = ours(policy, Batch(groups()), gspo, version=1)
    total, count = torch.zeros(()), 0
    for group in groups():
        for a, t in zip(advantages(group.rewards), group.trajectories, strict=True):
            ratio = torch.exp((logprob(policy, t.tokens)[t.loss_mask[1:]] + 2.0).mean())
            total = total - torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a)
            count += 1
    (total / count).backward()
    same(found, gradients(policy))


def test_std_division_is_a_knob(policy, settings):
    divided = replace(settings, std_division=True)
    only = [groups()[0]]
    _, found = ours(policy, Batch(only), divided)
    _, plain = ours(policy, Batch(only), settings)
    scale = 1 / (torch.tensor(REWARDS[0]).std().item() + 1e-6)
    same(found, [scale * gradient for gradient in plain], 1e-5)


@pytest.mark.parametrize("budget", [8, 20, 10_000])
def test_micro_batches_only_add_up(policy, settings, budget):
    _, whole = ours(policy, Batch(groups()), settings)
    _, cut = ours(policy, Batch(groups()), replace(settings, tokens=budget))
    same(whole, cut)


def test_zero_advantage_rows_are_skipped_but_counted(policy, settings):
    [part] = local_minibatches(policy, Batch(groups()), settings, 0)
    assert (part.rollouts, part.skipped) == (12, 4)
    assert len(part.items) == 8


def test_minibatches_are_cut_by_prompts_with_their_own_denominators(policy, settings):
    two = replace(settings, minibatch=2)
    parts = local_minibatches(policy, Batch(groups()), two, 0)
    assert [part.rollouts for part in parts] == [6, 6]
    for part, half in zip(parts, (groups()[:2], groups()[2:]), strict=True):
        backward(policy, part.items, two)
        found = gradients(policy)
        reference_policy_loss(policy, half).backward()
        same(found, gradients(policy))


def test_old_log_probabilities_are_fixed_before_the_first_step(policy, settings):
    [part] = local_minibatches(policy, Batch(groups()), settings, 0)
    remember_old(policy, part, settings)
    for item in part.items:
        mask = np.arange(len(item.tokens))[1:] >= 5
        wanted = logprob(policy, item.tokens).detach().numpy()[mask]
        assert np.allclose(item.terms.old, wanted, atol=1e-5)


def judged(advantage=0.3, weight=0.02) -> Batch:
    dead = Group(PROMPTS[0], (0.0, 0.0), (trajectory(0, 5, 2), trajectory(1, 5, 3)))
    other = Group(PROMPTS[1], (0.0, 0.0), (trajectory(2, 5, 2), trajectory(3, 5, 3)))
    row = Judgment(PROMPTS[0], trajectory(9, 12, 6), advantage, weight)
    right = Judgment(PROMPTS[1], trajectory(8, 12, 6), 0.0, weight)
    return Batch([dead, other], [row, right])


def test_a_sampled_judgment_has_the_gradient_of_reinforce(policy, settings):
    """lambda (R - b) grad of the mean log-probability, over the two judgments; one had R = b."""
    _, found = ours(policy, judged(0.3, 0.02), settings)
    t = trajectory(9, 12, 6)
    loss = -0.02 * 0.3 * logprob(policy, t.tokens)[t.loss_mask[1:]].sum() / 2
    loss.backward()
    same(found, gradients(policy))


def exact_batch(policy, target: float) -> Batch:
    context = policy.encode_chat(CHAT)
    values = [
        logprob(policy, context + policy.encode_reply(c))[len(context) - 1 :].sum().item()
        for c in VARIANCE.choices
    ]
    p = np.exp(values) / np.exp(values).sum()
    rewards = np.array([judge_reward(g, target) for g in GRID])
    rows = [
        Judgment(PROMPTS[0], Continuation(CHAT, c, v), float(q * (r - p @ rewards)), 0.1)
        for c, v, q, r in zip(VARIANCE.choices, values, p, rewards, strict=True)
    ]
    return Batch(judged().groups, [*rows, judged().judgments[1]])


def test_the_exact_loss_has_the_gradient_of_the_enumerated_expectation(policy, settings):
    _, found = ours(policy, exact_batch(policy, 0.1), settings)
    context = policy.encode_chat(CHAT)
    values = torch.stack(
        [
            logprob(policy, context + policy.encode_reply(c))[len(context) - 1 :].sum()
            for c in VARIANCE.choices
        ]
    )
    rewards = torch.tensor([judge_reward(g, 0.1) for g in GRID], dtype=torch.float32)
    (-0.1 * (torch.softmax(values, 0) * rewards).sum() / 2).backward()
    same(found, gradients(policy))


def judged_batch(*texts: str) -> Batch:
    """Some of four prompts with a judgment of all choices, in chats that begin alike."""
    asked = texts or ("What is 1 + 1?", "What is 204 + 31?")
    chats = turns(asked, [exemplar("2 + 2?", 0.1)])
    rows = [
        Judgment(prompt, Continuation(chat, choice, -3.0), 0.1 * i - 0.3, 0.1)
        for prompt, chat in zip(PROMPTS, chats, strict=False)
        for i, choice in enumerate(VARIANCE.choices)
    ]
    return Batch(groups(), rows)


@pytest.mark.parametrize("given", [ONE_BATCH, Layout(1, 1), Layout(8, 1, packed=True)])
def test_answers_and_judgments_share_a_pass_where_passes_are_wide(
    policy, settings, monkeypatch, given
):
    monkeypatch.setattr(type(policy), "layout", given)
    texts = ("What is 1 + 1?", "What is 204 + 31?", "What is 3 + 4, and twice that, and thrice?")
    [part] = local_minibatches(policy, judged_batch(*texts), settings, 0)
    policy.wide = False
    backward(policy, part.items, settings)
    wanted = gradients(policy)
    policy.wide = True
    [[answers, judgments]] = passes(policy, part.items, settings)
    assert (answers.judge, judgments.judge) == (False, True)
    assert judgments.group.prefix and not answers.group.prefix
    assert (len(judgments.group.batches) > 1) == (given.spare == 1)
    ticks = iter([10.0, 14.0])
    watch = Stopwatch(lambda: next(ticks))
    backward(policy, part.items, settings, watch)
    same(gradients(policy), wanted)
    sizes = answers.group.size, judgments.group.size
    assert watch.seconds == pytest.approx(4.0 * sizes[1] / sum(sizes))
    for changes, count in (
        ({"tokens": sum(sizes)}, 1),
        ({"tokens": sum(sizes) - 1}, 2),
        ({"checkpointing": True}, 1),
    ):
        assert len(list(passes(policy, part.items, replace(settings, **changes)))) == count


def test_chats_that_were_just_scored_are_not_encoded_again(settings, monkeypatch):
    trained = engine(settings)
    batch = judged_batch()
    chats = list({id(j.trajectory.chat): j.trajectory.chat for j in batch.judgments}.values())
    wanted = engine(settings).update(batch)
    trained.score(chats, VARIANCE.choices)
    monkeypatch.setattr("metis.engines.tokens.encoding.encode_chats", None)
    assert trained.update(batch) == wanted


def engine(settings, **changes) -> LocalEngine:
    task = build(Arithmetic(prompts=20, heldout=4, levels=(1,)), 0)
    return LocalEngine(replace(settings, **changes), task)


def test_an_update_moves_the_policy_towards_what_was_rewarded(settings):
    trained = engine(settings, learning_rate=1e-2)
    policy = trained.policy

    def gap():
        good, bad, _ = groups()[0].trajectories
        score = [logprob(policy, t.tokens)[t.loss_mask[1:]].mean().item() for t in (good, bad)]
        return score[0] - score[1]

    before = gap()
    for _ in range(3):
        fresh = [replace(t, policy=trained.version) for t in groups()[0].trajectories]
        trained.update(Batch([Group(PROMPTS[0], REWARDS[0], tuple(fresh))]))
    assert gap() > before
    assert trained.version == 3


def test_kl_holds_the_policy_back(settings):
    def moved(kl):
        trained = engine(settings, learning_rate=1e-2, kl=kl)
        start = [p.detach().clone() for p in trained.policy.trainable]
        for _ in range(3):
            trained.update(Batch(groups(policy=trained.version)))
        now = trained.policy.trainable
        return sum((a - b).square().sum().item() for a, b in zip(start, now, strict=True))

    assert moved(kl=50.0) < moved(kl=0.0)


def test_a_loss_that_is_not_finite_is_skipped_then_stops_the_run(settings):
    broken = engine(settings)
    before = [p.detach().clone() for p in broken.policy.trainable]
    bad = Batch([groups()[0]], [Judgment(PROMPTS[0], trajectory(9, 12, 6), float("inf"), 1.0)])
    for _ in range(2):
        assert broken.update(bad)["update/non_finite"] == 1.0
    same(before, broken.policy.trainable, 0.0)
    assert broken.update(Batch([groups()[0]]))["update/non_finite"] == 0.0
    for _ in range(2):
        broken.update(bad)
    with pytest.raises(MetisError, match=r"engine.learning_rate.*3 times in a row"):
        broken.update(bad)


def test_lora_trains_adapters_only_and_checkpointing_changes_nothing(settings, policy):
    pytest.importorskip("peft")
    adapted = engine(settings, lora=2)
    names = [n for n, p in adapted.policy.network.named_parameters() if p.requires_grad]
    assert names and all("lora_" in name for name in names)
    adapted.update(Batch(groups()))
    saving = engine(settings, checkpointing=True)
    [part] = local_minibatches(saving.policy, Batch(groups()), saving.settings, 0)
    backward(saving.policy, part.items, saving.settings)
    found = gradients(saving.policy)
    reference_policy_loss(policy, groups()).backward()
    same(found, gradients(policy))


class Attentions(TorchDispatchMode):
    """Counts passes of packed rows through a layer's attention."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.metis.block_attention.default
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("tokens", [16, 40, 10_000])
def test_recomputed_activations_change_nothing_in_wide_passes(settings, tokens, packs):
    found, counts = [], []
    for saving in (False, True):
        trained = engine(settings, checkpointing=saving, tokens=tokens)
        trained.policy.wide, trained.policy.packs = True, packs
        [part] = local_minibatches(trained.policy, judged_batch(), trained.settings, 0)
        with Attentions() as attentions:
            backward(trained.policy, part.items, trained.settings)
        found.append(gradients(trained.policy))
        counts.append(attentions.count)
    same(*found)
    assert counts[1] == 2 * counts[0] > 0


def test_a_network_without_a_list_of_layers_is_not_compiled():
    with pytest.raises(MetisError, match=r"engine.compile = true: Linear has no list of layers"):
        compiling.compile_layers(torch.nn.Linear(1, 1))


def broken(graph, inputs):
    """As torch's own compiler fails."""
    error = OSError("no compiler was found")
    raise InductorError(error, inspect.currentframe()) if InductorError else error


def sound(graph, inputs):
    return make_boxed_func(graph.forward)


BACKENDS = {"forward": broken, "backward": aot_autograd(fw_compiler=sound, bw_compiler=broken)}
if InductorError is None:  # then a failure of the backward pass is not told from others
    del BACKENDS["backward"]


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=list(BACKENDS))
def test_layers_that_cannot_be_compiled_are_said_to_be_so(settings, monkeypatch, backend):
    compile_with(monkeypatch, backend)
    with pytest.raises(MetisError, match=r"engine.compile = true.*no compiler.*compile=false"):
        engine(settings, compile=True).update(judged_batch())


def strips_of(engine, batch) -> int:
    """The number of batches that the judgments of a batch stand in."""
    [part] = local_minibatches(engine.policy, batch, engine.settings, 0)
    found = prefix_groups(engine.policy, part.items, engine.settings.tokens)
    return max(len(part.group.batches) for part in found if part.judge)


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_compiled_layers_recompute_the_same(settings, monkeypatch):
    compile_with(monkeypatch, "aot_eager")
    found = []
    for saving in (False, True):
        trained = engine(settings, checkpointing=saving, compile=saving)
        trained.policy.wide = True
        [part] = local_minibatches(trained.policy, judged_batch(), trained.settings, 0)
        backward(trained.policy, part.items, trained.settings)
        found.append(gradients(trained.policy))
    same(*found)


LAYER, HEAD = 1, 3
"""Compiled graphs: of all layers; of values with and without entropy, and of the gradient."""


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("packs", [False, True])
def test_compiled_layers_learn_the_same_and_serve_every_layer_and_length(
    settings, monkeypatch, packs
):
    compile_with(monkeypatch, "aot_eager")
    plain, compiled = engine(settings), engine(settings, compile=True)
    monkeypatch.setattr("metis.engines.local.model.policy.BATCH_WORK", 16 * plain.policy.weights)
    first = judged_batch()
    second = replace(judged_batch("1 + 1?", "Is 204 + 31 even?", "And 7?"), groups=groups()[:3])
    many = replace(first, groups=groups() * 3)
    for batch in (first, second, many):
        for each in (plain, compiled):
            each.policy.wide, each.policy.packs = True, packs
            each.version = 0
        wanted, found = plain.update(batch), compiled.update(batch)
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    assert [strips_of(plain, batch) for batch in (first, second)] == [1, 2]
    graphs = counters["stats"]["unique_graphs"]
    assert graphs == LAYER + HEAD and not counters["graph_break"]
    prompts = plain.task.training()[:3]
    drawn = [[g.rewards for g in each.rollout(prompts, 2)] for each in (plain, compiled)]
    assert drawn[0] == drawn[1]
    assert counters["stats"]["unique_graphs"] == graphs, "with a cache nothing is compiled"


@pytest.mark.parametrize("lora", [0, 2])
def test_save_and_load_bring_everything_back(settings, tmp_path, lora):
    if lora:
        pytest.importorskip("peft")
    one, other = engine(settings, lora=lora), engine(settings, lora=lora)
    one.update(Batch(groups()))
    one.save(tmp_path)
    other.load(tmp_path)
    batch = Batch(groups(policy=1))
    assert one.update(batch) == other.update(batch)
    same(one.policy.trainable, other.policy.trainable, 0.0)
    prompts = one.task.training()[:3]
    first, second = (e.rollout(prompts, 2) for e in (one, other))
    assert [g.rewards for g in first] == [g.rewards for g in second]


def test_a_resumed_engine_has_its_own_learning_rate(settings, tmp_path):
    one, other = engine(settings), engine(settings, learning_rate=2.5e-4)
    one.update(Batch(groups()))
    one.save(tmp_path)
    other.load(tmp_path)
    assert [group["lr"] for group in other.stepper.optimizer.param_groups] == [2.5e-4]
    assert other.stepper.optimizer.state_dict()["state"] and one.settings.learning_rate != 2.5e-4


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt"])
@pytest.mark.parametrize("size", [0, 5, -100])
def test_a_truncated_file_of_a_checkpoint_is_named(settings, tmp_path, name, size):
    one = engine(settings)
    one.save(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(OSError, match=rf"{name}' cannot be read: ."):
        one.load(tmp_path)


def test_an_optimizer_is_read_into_the_memory_of_the_machine(settings, tmp_path, monkeypatch):
    one, load, places = engine(settings), torch.load, []

    def note(path, map_location=None, **options):
        places.append(map_location)
        return load(path, map_location, **options)

    monkeypatch.setattr(torch, "load", note)
    one.save(tmp_path)
    one.load(tmp_path)
    assert places == ["cpu"]


def test_a_generator_of_another_device_is_seeded_by_the_one_that_was_saved(settings, tmp_path):
    one = engine(settings)
    one.save(tmp_path)
    saved = torch.load(tmp_path / "optimizer.pt", weights_only=True)
    draws = []
    for last in (1, 1, 2):
        elsewhere = torch.tensor([0] * 15 + [last], dtype=torch.uint8)
        torch.save({**saved, "generator": elsewhere}, tmp_path / "optimizer.pt")
        one.load(tmp_path)
        draws.append(torch.rand(1, generator=one.generator).item())
    assert draws[0] == draws[1] != draws[2]


def out_of_memory(*_, **__):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory")


@contextlib.contextmanager
def told(match=r"engine\.tokens.*engine\.rows.*checkpointing"):
    with pytest.raises(MetisError, match=match):
        yield


def test_a_full_gpu_names_the_knobs(settings, monkeypatch, tmp_path):
    full = engine(settings)
    full.save(tmp_path)
    monkeypatch.setattr(full.stepper, "step", out_of_memory)
    with told():
        full.update(Batch(groups()))
    monkeypatch.setattr(f"{LocalEngine.__module__}.load_training", out_of_memory)
    with told():
        full.load(tmp_path)
    monkeypatch.setattr(LocalEngine, "_initial_policy", out_of_memory)
    with told():
        engine(settings)


@pytest.mark.parametrize("place", ["sample", "sync", "sleep"])
def test_a_gpu_that_vllm_fills_names_its_knobs_too(settings, monkeypatch, place):
    foreign = Mock()
    getattr(foreign, place).side_effect = out_of_memory
    crowded = engine(replace(settings, vllm_memory=0.7, vllm_sleep=False))
    crowded.settings = replace(crowded.settings, generation="vllm")
    crowded.sampler = foreign
    with told(r"lower engine\.vllm_memory \(0\.7\), engine\.tokens.*engine\.vllm_sleep=true or"):
        if place == "sample":
            crowded.evaluate()
        else:
            crowded.update(Batch(groups()))
