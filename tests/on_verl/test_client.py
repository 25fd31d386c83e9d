"""Judge prompts go straight to the server that they are dealt to."""

import asyncio
from types import SimpleNamespace

from omegaconf import OmegaConf
from verl.workers.rollout.replica import TokenOutput

from metis.engines.verl.servers.judging import AddressedClient


class Server:
    """Answers with what it was asked; `generate` is a method of a Ray actor."""

    def __init__(self):
        self.requests = []
        self.generate = SimpleNamespace(remote=self._generate)

    async def _generate(self, request_id, prompt_ids, sampling_params, image_data, video_data):
        self.requests.append(request_id)
        await asyncio.sleep(0)
        return TokenOutput(token_ids=prompt_ids, extra_fields={"global_steps": 1})


def test_a_request_goes_to_its_address_under_a_name_of_its_own():
    rollout = {"name": "vllm", "full_determinism": True}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})
    servers = [Server(), Server()]
    manager = SimpleNamespace(
        config=config, server_handles=servers, get_addresses=lambda: ["first", "second"]
    )
    client = AddressedClient.of(manager)
    assert list(client.servers) == ["first", "second"]

    async def ask():
        addresses = ["first", "second", "second"]
        return await asyncio.gather(
            *(
                client.generate(address, prompt_ids=[i], sampling_params={})
                for i, address in enumerate(addresses)
            )
        )

    assert [output.token_ids for output in asyncio.run(ask())] == [[0], [1], [2]]
    first, second = (server.requests for server in servers)
    assert (len(first), len(second)) == (1, 2)
    assert len({*first, *second}) == 3, "a server refuses a name that it has already"
