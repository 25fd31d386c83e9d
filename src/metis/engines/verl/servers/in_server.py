"""Functions that Ray runs inside a rollout server: scoring, and a record of errors.

Scoring gives log-probabilities of given tokens at one position; verl's `generate` only reports the
sampled token. Ray runs these functions in the server's actor, which has the engine: `begin_answers`
submits all questions of a step to the actor's event loop, `collect_answers` polls for the results.
Neither blocks the actor.

An error of vLLM's workers during weight sync is raised only in the server, while the sending actor
worker waits forever (`weight_sync`), so `keep_errors` records it for `take_errors`.
"""

import asyncio
import functools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from metis.errors import first_line

MOST_TOKENS = 128
"""Maximum candidate tokens per question: the limit of vLLM's `logprob_token_ids`."""


class Question(NamedTuple):
    """A prompt, and the candidate next tokens."""

    prompt: list[int]
    tokens: list[int]


class Answers(NamedTuple):
    """Log-probabilities per question, and the weight versions before and after."""

    rows: list[list[float]]
    versions: tuple[int | None, int | None]


Ask = Callable[[Question], Awaitable[list[float]]]
Waves = Sequence[Sequence[Question]]
"""The questions of a wave are submitted together, after the previous wave is done."""


async def answered(ask: Ask, waves: Waves) -> list[list[float]]:
    """The answers to all questions, in order."""
    return [row for wave in waves for row in await asyncio.gather(*map(ask, wave))]


def begin_answers(server: Any, backend: str, name: str, waves: Waves) -> None:
    """Submit the questions, under a name."""
    kind = BACKENDS[backend]
    asked = _answer(server, kind, waves)
    _running[name] = asyncio.run_coroutine_threadsafe(asked, kind.loop(server))


def collect_answers(server: Any, name: str) -> Answers | None:
    """The answers, or None while unfinished; raises their error."""
    return _running.pop(name).result() if _running[name].done() else None


_running: dict[str, Future[Answers]] = {}


class Backend(NamedTuple):
    """A server backend: how to query it, and its event loop."""

    open: Callable[[Any], Awaitable[Ask]]
    loop: Callable[[Any], asyncio.AbstractEventLoop]


async def _answer(server: Any, backend: Backend, waves: Waves) -> Answers:
    before = server.global_steps
    rows = await answered(await backend.open(server), waves)
    return Answers(rows, (before, server.global_steps))


async def through_vllm(server: Any) -> Ask:
    """Query the engine of verl's vLLM server, with the LoRA adapter of its `generate`."""
    from vllm import SamplingParams

    adapter = await _adapter(server)

    async def ask(question: Question) -> list[float]:
        params = SamplingParams(
            max_tokens=1, temperature=0.0, logprob_token_ids=question.tokens, detokenize=False
        )
        outputs = server.engine.generate(
            prompt={"prompt_token_ids": question.prompt},
            sampling_params=params,
            request_id=uuid.uuid4().hex,
            lora_request=adapter,
        )
        last = None
        async for output in outputs:
            last = output
        if last is None or not last.outputs or not last.outputs[0].logprobs:
            raise RuntimeError("a rollout server gave no answer to a judge prompt")
        logprobs = last.outputs[0].logprobs[0]
        return [logprobs[token].logprob for token in question.tokens]

    return ask


async def _adapter(server: Any) -> Any:
    """The LoRARequest, if the server has a loaded adapter."""
    if not server.lora_as_adapter:
        return None
    from verl.workers.rollout.vllm_rollout.utils import (
        VLLM_LORA_INT_ID,
        VLLM_LORA_NAME,
        VLLM_LORA_PATH,
    )
    from vllm.lora.request import LoRARequest

    if VLLM_LORA_INT_ID not in await server.engine.list_loras():
        return None
    return LoRARequest(
        lora_name=VLLM_LORA_NAME, lora_int_id=VLLM_LORA_INT_ID, lora_path=VLLM_LORA_PATH
    )


def _loop_of_vllm(server: Any) -> asyncio.AbstractEventLoop:
    """The event loop of vLLM's output handler."""
    loop: asyncio.AbstractEventLoop = server.engine.output_handler.get_loop()
    return loop


BACKENDS = {"vllm": Backend(through_vllm, _loop_of_vllm)}
"""By actor_rollout_ref.rollout.name: backends that support scoring inside the server."""


def keep_errors(server: Any) -> None:
    """Record errors of the engine's collective_rpc (vLLM)."""
    engine = getattr(server, "engine", None)
    call = getattr(engine, "collective_rpc", None)
    if engine is None or call is None:
        return

    @functools.wraps(call)
    async def keeping(*arguments: Any, **options: Any) -> Any:
        try:
            return await call(*arguments, **options)
        except Exception as error:
            _errors.append(f"{type(error).__name__}: {first_line(error)}")
            raise

    engine.collective_rpc = keeping


def take_errors(server: Any) -> list[str]:
    """Return and clear the recorded errors."""
    taken = list(_errors)
    _errors.clear()
    return taken


_errors: list[str] = []
