"""Estimated memory and seconds of a step on verl with H200 GPUs, for a dry run on any machine.

Constants are fitted to runs on one GPU in `evidence/`: bytes of logits and speed of passes to a
1.5B model, fixed seconds per step to a 135M model. Communication between GPUs uses the published
bandwidths; it was not measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import (
    DECODED,
    GRAPHS_OF_VLLM,
    LENGTH,
    ROW,
    Seconds,
    StepSize,
    activations,
)
from metis.engines.verl.settings import VerlSettings

MEMORY = 141e9
BANDWIDTH = 4.8e12
PRODUCTS = 9.9e14
"""Published figures of an H200: bytes, bytes/s, and FLOP/s in bfloat16."""
WITHIN = 450e9
BETWEEN = 50e9
OF_A_NODE = 8
"""Published bytes/s between GPUs within a node (NVLink) and between nodes (400 Gb/s per GPU); GPUs
per node."""

LOGIT_BYTES = 8
"""Bytes per logit in an update: logit, gradient, and the float32 copy of a chunk."""
SCORED = 2
"""Additional bytes per logit in passes with scored judgments."""
SHARE = 0.135
"""Speed of training passes, as a share of the published FLOP/s."""
STARTED = 1.0
UPDATED = 1.2
"""Fixed seconds of rollouts, and of an update."""
ASKED = 1.1e-3
REPLY = 3e-3
"""Seconds per judge prompt on a server: scored, and answered with a sampled reply."""
PREFILL = 0.4
"""Speed of prefill, as a share of the published FLOP/s."""


@dataclass(frozen=True)
class GpuMemory:
    """Bytes per GPU: model and optimizer states, an update's activations, and vLLM while awake."""

    states: float
    update: float
    generation: float

    @property
    def training(self) -> float:
        """Peak of the actor's process, without vLLM."""
        return self.states + self.update

    @property
    def peak(self) -> float:
        return self.states + max(self.update, self.generation)


def divided(step: StepSize, choices: Sequence[str]) -> StepSize:
    """A step with multi-token choices: four questions and three update rows per judgment."""
    if all(len(choice) == 1 for choice in choices):
        return step
    return replace(step, judged=4 * step.judged, learnt=3 * step.learnt)


def gpus(settings: VerlSettings) -> int:
    return settings.nodes * settings.gpus


def memory(shape: ModelShape, settings: VerlSettings, step: StepSize) -> GpuMemory:
    """Peak memory of a GPU; FSDP divides weights, gradients and moments among all of them."""
    trained = settings.lora * shape.adapters if settings.lora else shape.weights
    held = 4.0 * shape.weights + (4.0 * trained if settings.lora else 0.0) + 12.0 * trained
    if settings.kl and not settings.lora:
        held += 4.0 * shape.weights
    return GpuMemory(
        states=held / gpus(settings),
        update=_gathered(shape) + _pass(shape, settings, step),
        generation=settings.vllm_memory * MEMORY,
    )


def _gathered(shape: ModelShape) -> float:
    """Bytes of bfloat16 weights that FSDP gathers at a time: two layers and the vocabulary."""
    layers = 2 * (shape.weights - shape.vocabulary * shape.hidden) / shape.layers
    return 2.0 * (layers + shape.vocabulary * shape.hidden)


def _pass(shape: ModelShape, settings: VerlSettings, step: StepSize) -> float:
    """Activations and logits of the largest micro-batch."""
    tokens = min(settings.tokens, _longest(settings, step) / gpus(settings))
    layer = activations(shape, gpu=True)
    kept = float(shape.layers * layer)
    if settings.checkpointing:
        kept = 2.0 * shape.layers * shape.hidden + layer
    logit = LOGIT_BYTES + (SCORED if step.learnt and not step.reply else 0)
    return tokens * (kept + logit * shape.vocabulary)


def _longest(settings: VerlSettings, step: StepSize) -> float:
    """Tokens of a step in which all responses have the maximum length."""
    return step.rollouts * (step.prompt + settings.longest) + _judged(step)


def _judged(step: StepSize) -> int:
    """Tokens of the judgments that are trained on; each row repeats its judge prompt."""
    return step.learnt * (step.shared + step.candidate + step.reply)


def seconds(shape: ModelShape, settings: VerlSettings, step: StepSize) -> Seconds:
    """Seconds of a step, if responses have `LENGTH` times the maximum length on average."""
    written = LENGTH * settings.longest
    rollouts = step.rollouts * (step.prompt + written)
    return Seconds(
        rollout=STARTED + _decode(shape, settings, step, step.rollouts, settings.longest),
        judge=_judging(shape, settings, step) + _trained(shape, settings, _judged(step)),
        update=UPDATED
        + _trained(shape, settings, rollouts)
        + 2.0 * shape.weights / _link(settings),
    )


def _link(settings: VerlSettings) -> float:
    """Bandwidth to a GPU from the others, in bytes/s."""
    if gpus(settings) == 1:
        return math.inf
    return WITHIN if gpus(settings) <= OF_A_NODE else BETWEEN


def _judging(shape: ModelShape, settings: VerlSettings, step: StepSize) -> float:
    """Seconds of judging; each server prefills the judge prompts' common prefix once."""
    if not step.judged:
        return 0.0
    count = gpus(settings) / settings.tensor
    read = count * step.shared + step.judged * step.candidate
    prefill = 2.0 * shape.weights * read / (gpus(settings) * PREFILL * PRODUCTS)
    if not step.reply:
        return prefill + ASKED * step.judged / count
    asked = REPLY * step.judged / count
    return prefill + asked + _decode(shape, settings, step, step.judged, step.reply)


def _decode(
    shape: ModelShape, settings: VerlSettings, step: StepSize, rows: int, tokens: int
) -> float:
    """Seconds of decoding all rows, spread over the servers.

    If a server's KV cache does not hold them all, a finished one makes room for the next.
    """
    own = math.ceil(rows * settings.tensor / gpus(settings))
    kept = 4.0 * shape.layers * shape.keys * (step.prompt + LENGTH * tokens)
    room = max(1.0, settings.tensor * settings.vllm_memory * MEMORY - 2.0 * shape.weights)
    at_once = max(1, min(own, int(room / kept)))
    read = (2.0 * shape.weights + at_once * kept) / (settings.tensor * BANDWIDTH)
    compute = 2.0 * shape.weights * at_once / (settings.tensor * DECODED * PRODUCTS)
    token = max(read, compute, shape.layers * GRAPHS_OF_VLLM) + ROW * at_once
    return max(1.0, LENGTH * own / at_once) * tokens * token


def _trained(shape: ModelShape, settings: VerlSettings, tokens: float) -> float:
    """Seconds of old log-probabilities and update for this many tokens: compute or communication,
    whichever takes longer. With LoRA the backward pass has no gradients of the base weights.
    """
    if not tokens:
        return 0.0
    forward = 1 + bool(settings.kl)
    passes = forward + (2 if settings.lora else 3) + settings.checkpointing
    compute = 2.0 * passes * shape.weights * tokens / (gpus(settings) * SHARE * PRODUCTS)
    return max(compute, _traffic(shape, settings, tokens, forward))


def _traffic(shape: ModelShape, settings: VerlSettings, tokens: float, forward: int) -> float:
    """Seconds of communication: FSDP all-gathers bfloat16 weights for every forward and backward
    pass of a micro-batch, and reduce-scatters float32 gradients."""
    batches = math.ceil(tokens / (gpus(settings) * settings.tokens))
    gradients = 0.0 if settings.lora else 4.0
    gathered = 2.0 * (forward + 2)
    return batches * (gathered + gradients) * shape.weights / _link(settings)
