"""Scoring inside a rollout server: the log-probabilities of given tokens at one position.

verl's `generate` reports the sampled token alone. Ray runs these functions in the server's actor,
which holds the engine: `begin` hands all questions of a step to the actor's event loop, `collect`
fetches the answers. Neither waits, since the actor takes no other call meanwhile.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

MOST_TOKENS = 128
"""Of one question: the limit of vLLM's `logprob_token_ids`."""


class Question(NamedTuple):
    """A prompt, and the tokens that may follow it."""

    prompt: list[int]
    tokens: list[int]


class Answers(NamedTuple):
    """Log-probabilities by question, and the versions of the weights before and after."""

    rows: list[list[float]]
    versions: tuple[int | None, int | None]


Ask = Callable[[Question], Awaitable[list[float]]]
Waves = Sequence[Sequence[Question]]
"""Questions of one wave are asked together, when those of the wave before are answered."""


async def answered(ask: Ask, waves: Waves) -> list[list[float]]:
    """The answers to all questions, in their order."""
    return [row for wave in waves for row in await asyncio.gather(*map(ask, wave))]


def begin(server: Any, backend: str, name: str, waves: Waves) -> None:
    """Start to answer, under a name."""
    kind = BACKENDS[backend]
    asked = _answer(server, kind, waves)
    _running[name] = asyncio.run_coroutine_threadsafe(asked, kind.loop(server))


def collect(server: Any, name: str) -> Answers | None:
    """The answers, once they are there; what went wrong is raised."""
    return _running.pop(name).result() if _running[name].done() else None


_running: dict[str, Future[Answers]] = {}


class Backend(NamedTuple):
    """A kind of server: how it is asked, and the event loop that it lives in."""

    open: Callable[[Any], Awaitable[Ask]]
    loop: Callable[[Any], asyncio.AbstractEventLoop]


async def _answer(server: Any, backend: Backend, waves: Waves) -> Answers:
    before = server.global_steps
    rows = await answered(await backend.open(server), waves)
    return Answers(rows, (before, server.global_steps))


async def through_vllm(server: Any) -> Ask:
    """Asks the engine of verl's vLLM server, with the LoRA adapter that its `generate` passes."""
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
    """The request for the LoRA adapter, where the server has one that is loaded."""
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
    """That of the task which takes in what the engine puts out."""
    loop: asyncio.AbstractEventLoop = server.engine.output_handler.get_loop()
    return loop


BACKENDS = {"vllm": Backend(through_vllm, _loop_of_vllm)}
"""By actor_rollout_ref.rollout.name: servers that can be asked from inside."""
