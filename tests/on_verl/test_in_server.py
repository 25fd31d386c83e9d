"""Requests to vLLM's engine inside verl's server; vLLM itself is not needed for them."""

import asyncio
import sys
from types import ModuleType, SimpleNamespace

import pytest

from metis.engines.verl.servers.in_server import (
    Question,
    begin_answers,
    collect_answers,
    through_vllm,
)

LORA = SimpleNamespace(VLLM_LORA_INT_ID=123, VLLM_LORA_NAME="123", VLLM_LORA_PATH="adapter")


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    """The classes of vLLM that requests are made of, which keep what they are given."""
    modules = {
        "vllm": {"SamplingParams": SimpleNamespace},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": SimpleNamespace},
        "verl.workers.rollout.vllm_rollout.utils": vars(LORA),
    }
    for name, contents in modules.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)


class Engine:
    """Reports the sampled token beside those that were asked for, as vLLM does."""

    def __init__(self, loras=()):
        self.loras, self.requests = set(loras), []

    async def list_loras(self):
        return self.loras

    async def generate(self, prompt, sampling_params, request_id, lora_request=None):
        self.requests.append(SimpleNamespace(prompt=prompt, id=request_id, lora=lora_request))
        self.requests[-1].params = sampling_params
        await asyncio.sleep(0)
        asked = [*sampling_params.logprob_token_ids, 7]
        logprobs = [{token: SimpleNamespace(logprob=-token / 10) for token in asked}]
        for outputs in ([], [SimpleNamespace(token_ids=[7], logprobs=logprobs)]):
            yield SimpleNamespace(outputs=outputs)


def server(engine, adapter=False):
    return SimpleNamespace(engine=engine, lora_as_adapter=adapter, global_steps=5)


async def asked(actor, waves):
    actor.engine.output_handler = asyncio.current_task()
    begin_answers(actor, "vllm", "name", waves)
    while (found := collect_answers(actor, "name")) is None:
        await asyncio.sleep(0)
    return found


def test_one_token_is_drawn_and_the_given_ones_are_reported():
    engine = Engine()
    waves = [[Question([1, 2], [3, 4])], [Question([1, 2, 3], [5]), Question([1, 2, 4], [6, 7])]]
    found = asyncio.run(asked(server(engine), waves))
    assert found.rows == [[-0.3, -0.4], [-0.5], [-0.6, -0.7]] and found.versions == (5, 5)
    assert [request.prompt["prompt_token_ids"] for request in engine.requests] == [
        [1, 2],
        [1, 2, 3],
        [1, 2, 4],
    ]
    assert [request.params.logprob_token_ids for request in engine.requests] == [
        [3, 4],
        [5],
        [6, 7],
    ]
    assert {request.params.max_tokens for request in engine.requests} == {1}
    assert {request.params.temperature for request in engine.requests} == {0.0}
    assert len({request.id for request in engine.requests}) == 3
    assert {request.lora for request in engine.requests} == {None}


@pytest.mark.parametrize("loaded", [True, False])
def test_an_adapter_that_is_loaded_is_used(loaded):
    engine = Engine([LORA.VLLM_LORA_INT_ID] if loaded else [])
    asyncio.run(asked(server(engine, adapter=True), [[Question([1], [2])]]))
    lora = engine.requests[0].lora
    assert (lora is not None) is loaded
    if loaded:
        assert (lora.lora_name, lora.lora_int_id, lora.lora_path) == ("123", 123, "adapter")


def test_an_aborted_request_is_an_error():
    class Aborting(Engine):
        async def generate(self, **_):
            yield SimpleNamespace(outputs=[])

    async def ask():
        return await (await through_vllm(server(Aborting())))(Question([1], [2]))

    with pytest.raises(RuntimeError, match="gave no answer to a judge prompt"):
        asyncio.run(ask())
