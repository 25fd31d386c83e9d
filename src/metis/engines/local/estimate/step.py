"""Memory and seconds of a step on the local engine, from the sizes of its model and its settings.

Memory assumes answers of full length, all trained on. Seconds assume usual answers:
`LENGTH` of the limit on average, in groups of which `TRAINED` have mixed rewards.
"""

import math
from dataclasses import dataclass

from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.settings import LocalSettings

PROCESS = 0.5e9
"""Bytes of this process without a model: Python, torch, transformers and the data."""
CUDA = 0.6e9
"""Bytes of CUDA's context and workspaces."""
VLLM = 2e9
"""Bytes of vLLM beside its weights and its KV cache."""
LOGITS = 1 << 27
"""Logits that are held at once in an update: a chunk of the head."""
LOGIT_BYTES = 12
"""Bytes of a logit in an update: itself, its exponential and its gradient."""
DRAW_BYTES = 16
"""Bytes of a logit when a token is drawn: itself, its log-probability, and two copies."""

LENGTH = 0.6
TRAINED = 0.6
"""Shares of answers' longest length, and of groups that are trained on."""
LAUNCHES = 1e-3
"""Seconds of a layer's kernel launches in a forward pass, on a GPU without CUDA graphs."""
GRAPHS = 0.13e-3
GRAPHS_OF_VLLM = 0.1e-3
"""The same in decoding, which has CUDA graphs."""
ROW = 8e-6
"""Seconds in which vLLM takes note of a row's token."""
CACHED = 0.2
"""Speed at which decoding reads the KV cache on a GPU, relative to its bandwidth."""
SHARE = 0.45
DECODED = 0.4
"""Speed of passes over many tokens, and of decoding, relative to their matrix products alone."""


@dataclass(frozen=True)
class Device:
    """The hardware of a step, as speeds and sizes.

    gpu        a GPU: bfloat16 passes on float32 weights
    memory     bytes of a GPU
    free       bytes of these that nobody uses
    products   FLOP/s of the model's matrix products on many tokens
    decoding   the same on the rows that are generated at once
    bandwidth  bytes/s at which weights are read
    """

    gpu: bool
    memory: float
    free: float
    products: float
    decoding: float
    bandwidth: float


@dataclass(frozen=True)
class StepSize:
    """The work of a step.

    prompts, group  the batch
    opening         tokens that all prompts begin with
    question        tokens of a prompt after these
    judged          prompts that are judged
    learnt          judgments that the policy is trained on
    shared          tokens that all judge prompts begin with
    candidate       tokens of a judge prompt after these
    reply           tokens that the judge writes
    """

    prompts: int
    group: int
    opening: int
    question: int
    judged: int = 0
    learnt: int = 0
    shared: int = 0
    candidate: int = 0
    reply: int = 0

    @property
    def rollouts(self) -> int:
        return self.prompts * self.group

    @property
    def prompt(self) -> int:
        """Tokens of a whole prompt."""
        return self.opening + self.question


@dataclass(frozen=True)
class StepMemory:
    """Bytes: what stays, and what an update adds; generation's stays too, unless vLLM sleeps."""

    process: float
    weights: float
    training: float
    generation: float
    update: float
    sleeps: bool = False

    @property
    def held(self) -> float:
        return self.process + self.weights + self.training

    @property
    def peak(self) -> float:
        if self.sleeps:
            return self.held + max(self.generation, self.update)
        return self.held + self.generation + self.update


def memory(
    shape: ModelShape, settings: LocalSettings, step: StepSize, device: Device
) -> StepMemory:
    """Peak memory of a step, by part."""
    trained = settings.lora * shape.adapters if settings.lora else shape.weights
    copies = 2 if settings.kl else 1
    apart = 4.0 * trained if step.learnt else 0.0  # the policy's gradient waits for the judge's
    vllm = settings.generation == "vllm"
    return StepMemory(
        process=CUDA if device.gpu else PROCESS,
        weights=4.0 * copies * shape.weights + (4.0 * trained if settings.lora else 0.0),
        training=12.0 * trained,
        generation=_vllm(shape, settings, device)
        if vllm
        else _generation(shape, settings, step, device),
        update=max(
            _answers(shape, settings, step, device),
            apart + _judgments(shape, settings, step, device),
        ),
        sleeps=vllm and settings.vllm_sleep,
    )


def _answers(shape: ModelShape, settings: LocalSettings, step: StepSize, device: Device) -> float:
    """The largest pass over answers; on a CPU those of one prompt, which is read once."""
    length, limit = settings.max_tokens, settings.tokens
    if not device.gpu:
        rows = max(1, min(step.group, limit // length))
        return _backward(shape, settings, step.prompt + rows * length, rows * length, device)
    together = min(settings.minibatch or step.prompts, step.prompts) * step.group
    row = step.prompt + length
    tokens = min(max(limit, row), together * row)
    return _backward(shape, settings, tokens, tokens, device)


def _judgments(shape: ModelShape, settings: LocalSettings, step: StepSize, device: Device) -> float:
    """The largest pass over judgments, whose common beginning is read once."""
    row = max(1, step.candidate + step.reply)
    rows = min(step.learnt, max(1, settings.tokens // row))
    tokens = step.shared + rows * row if rows else 0
    return _backward(shape, settings, tokens, rows * max(1, step.reply), device)


def activations(shape: ModelShape, gpu: bool) -> int:
    """Bytes that a layer keeps of a token for the backward pass, at float32, or in autocast.

    Two norms, attention and a gated MLP: on a GPU what linear layers read is bfloat16, the rest of
    the residual stream and of the norms float32.
    """
    if gpu:
        return 26 * shape.hidden + 4 * shape.keys + 8 * shape.inner
    return 4 * (9 * shape.hidden + 2 * shape.keys + 4 * shape.inner)


def _backward(
    shape: ModelShape, settings: LocalSettings, tokens: int, targets: int, device: Device
) -> float:
    """Activations of a pass, and its logits."""
    layer = activations(shape, device.gpu)
    kept = float(shape.layers * layer)
    if settings.checkpointing and device.gpu:
        kept = 4.0 * shape.layers * shape.hidden + layer
    logits = min(LOGITS, targets * shape.vocabulary)
    return tokens * kept + LOGIT_BYTES * logits


def _generation(
    shape: ModelShape, settings: LocalSettings, step: StepSize, device: Device
) -> float:
    """The KV cache of the rows that are generated at once, their logits, and on a GPU a bfloat16
    copy of the weights."""
    rows = min(settings.rows, step.rollouts)
    size = 2 if device.gpu else 4
    cache = (step.prompt + settings.max_tokens) * shape.layers * shape.keys * 2 * size
    copy = size * shape.weights if device.gpu else 0
    return float(rows * (cache + DRAW_BYTES * shape.vocabulary) + copy)


def _vllm(shape: ModelShape, settings: LocalSettings, device: Device) -> float:
    if settings.vllm_cache:
        return settings.vllm_cache * (1 << 30) + 2.0 * shape.weights + VLLM
    return settings.vllm_memory * device.memory


@dataclass(frozen=True)
class Seconds:
    """Seconds of the phases of a step."""

    rollout: float
    judge: float
    update: float

    @property
    def step(self) -> float:
        return self.rollout + self.judge + self.update


def generated(settings: LocalSettings, step: StepSize) -> float:
    """Tokens that a step generates, the judge's replies too."""
    return LENGTH * step.rollouts * settings.max_tokens + step.judged * step.reply


def processed(settings: LocalSettings, step: StepSize, device: Device) -> float:
    """Tokens of all forward passes of a step."""
    read = step.opening + step.prompts * step.question
    asked = step.shared * (bool(step.judged) + bool(step.learnt))
    judged = step.judged * step.candidate + step.learnt * (step.candidate + step.reply)
    return (
        read
        + asked
        + judged
        + generated(settings, step)
        + TRAINED * answers(settings, step, device)
    )


def answers(settings: LocalSettings, step: StepSize, device: Device) -> float:
    """Tokens of the answers with their prompts, which a CPU reads once."""
    written = LENGTH * step.rollouts * settings.max_tokens
    return written + step.prompt * (step.rollouts if device.gpu else step.prompts)


def seconds(shape: ModelShape, settings: LocalSettings, step: StepSize, device: Device) -> Seconds:
    """The seconds of a step, by phase."""
    read = step.opening + step.prompts * step.question
    row = step.candidate + step.reply
    scored = step.shared + step.judged * step.candidate if step.judged else 0
    learnt = step.shared + step.learnt * row if step.learnt else 0
    optimizer = 40.0 * shape.weights / device.bandwidth
    return Seconds(
        rollout=_pass(shape, settings, read, device)
        + _decode(shape, settings, step.rollouts, step.prompt, settings.max_tokens, device),
        judge=_pass(shape, settings, scored, device)
        + _decode(shape, settings, step.judged, step.shared + step.candidate, step.reply, device)
        + 3 * _pass(shape, settings, learnt, device),
        update=3 * _pass(shape, settings, TRAINED * answers(settings, step, device), device)
        + optimizer,
    )


def _pass(shape: ModelShape, settings: LocalSettings, tokens: float, device: Device) -> float:
    """Seconds of the forward passes over so many tokens; a backward pass takes twice that."""
    compute = 2.0 * shape.weights * tokens / (SHARE * device.products)
    passes = math.ceil(tokens / settings.tokens)
    return max(compute, passes * shape.layers * LAUNCHES if device.gpu else 0.0)


def _decode(
    shape: ModelShape, settings: LocalSettings, rows: int, prompt: int, tokens: int, device: Device
) -> float:
    """Seconds to generate so many rows, as many at once as the settings allow."""
    if not rows or not tokens:
        return 0.0
    vllm = settings.generation == "vllm"
    at_once = rows if vllm else min(rows, settings.rows)
    read = (2.0 if device.gpu else 4.0) * shape.weights / device.bandwidth
    compute = 2.0 * shape.weights * at_once / (DECODED * device.decoding)
    launches = shape.layers * (GRAPHS_OF_VLLM if vllm else GRAPHS) if device.gpu else 0.0
    token = max(read, compute, launches) + (ROW * at_once if vllm else 0.0)
    if device.gpu:
        cache = at_once * (prompt + tokens / 2) * shape.layers * 4 * shape.keys
        token += cache / (CACHED * device.bandwidth)
    return math.ceil(rows / at_once) * tokens * token
