"""Memory and seconds of a step on verl, on H200s that need not be here.

Constants are fitted to runs on one GPU in `evidence/`: the logits' bytes and the speed of passes to
those of a 1.5B model, the seconds of a step of any size to those of a 135M model. Traffic between
GPUs is by the links' published speeds, and was not measured.
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
"""Of an H200: bytes, bytes/s, and FLOP/s in bfloat16, as published."""
WITHIN = 450e9
BETWEEN = 50e9
OF_A_NODE = 8
"""Bytes/s to a GPU from others of its node (NVLink) and of other nodes (400 Gb/s a GPU), as
published; the GPUs of a node."""

LOGIT_BYTES = 8
"""Bytes of a logit in an update: itself, its gradient, and a chunk's float32."""
SCORED = 2
"""More bytes of it in passes with scored judgments."""
SHARE = 0.135
"""Speed of passes, relative to the GPU's published FLOP/s."""
STARTED = 1.0
UPDATED = 1.2
"""Seconds of rollouts, and of an update, that do not depend on their size."""
ASKED = 1.1e-3
REPLY = 3e-3
"""Seconds of a server for a scored prompt, and for one that is answered."""
PREFILL = 0.4
"""Speed of reading prompts, relative to the GPU's published FLOP/s."""


@dataclass(frozen=True)
class GpuMemory:
    """Bytes of each GPU: what stays, what an update adds, and what vLLM has while it is awake."""

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
    """A judgment of several tokens is four questions, and three rows of the update."""
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
    """Bfloat16 weights that are whole on every GPU for a while: two layers and the vocabulary."""
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
    """Tokens of a step whose answers have full length."""
    return step.rollouts * (step.prompt + settings.longest) + _judged(step)


def _judged(step: StepSize) -> int:
    """Tokens of the judgments that are trained on, each a row with all of its prompt."""
    return step.learnt * (step.shared + step.candidate + step.reply)


def seconds(shape: ModelShape, settings: VerlSettings, step: StepSize) -> Seconds:
    """The seconds of a step, with answers of `LENGTH` of the limit on average."""
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
    """Bytes/s to a GPU from others."""
    if gpus(settings) == 1:
        return math.inf
    return WITHIN if gpus(settings) <= OF_A_NODE else BETWEEN


def _judging(shape: ModelShape, settings: VerlSettings, step: StepSize) -> float:
    """Reading the judge prompts, whose common beginning every server reads once."""
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
    """Seconds until all rows are written, by as many servers as there are.

    Where they do not fit into a server's cache at once, one that ends makes room for the next.
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
    """Old log-probabilities and the update of so many tokens, or the traffic if it takes longer.

    Adapters need the gradients of activations alone.
    """
    if not tokens:
        return 0.0
    forward = 1 + bool(settings.kl)
    passes = forward + (2 if settings.lora else 3) + settings.checkpointing
    compute = 2.0 * passes * shape.weights * tokens / (gpus(settings) * SHARE * PRODUCTS)
    return max(compute, _traffic(shape, settings, tokens, forward))


def _traffic(shape: ModelShape, settings: VerlSettings, tokens: float, forward: int) -> float:
    """FSDP gathers bfloat16 weights for every forward and backward pass of a micro-batch, and
    scatters float32 gradients."""
    batches = math.ceil(tokens / (gpus(settings) * settings.tokens))
    gradients = 0.0 if settings.lora else 4.0
    gathered = 2.0 * (forward + 2)
    return batches * (gathered + gradients) * shape.weights / _link(settings)
