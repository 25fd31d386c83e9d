"""One-token requests to a rollout server on Ray: the judge's client, against verl's own.

    python benchmarks/verl_requests.py [--chats 128] [--requests 20] [--tokens 400] [--repeats 3]

The server answers at once, so that what is measured is the way to it. Needs verl's environment; no
GPU. A `reason` judge has one request a candidate; a `direct` one has one call for all of them, and
many requests only on servers that cannot be asked from inside (`verl/servers/in_server.py`).
"""

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from typing import Any

import ray
from omegaconf import OmegaConf
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.router import get_router_handle

from metis.engines.verl.servers.judging import AddressedClient


class Server:
    async def generate(self, **_: Any) -> TokenOutput:
        return TokenOutput(token_ids=[1], log_probs=[-1.0], extra_fields={"global_steps": 1})


async def score(
    client: LLMServerClient, sessions: Sequence[str], requests: int, tokens: int
) -> None:
    """Of each chat one request first, then the others at once, as where tokens are forced."""
    prompt = list(range(tokens))

    async def chat(session: str) -> None:
        async def force() -> None:
            params = {"max_tokens": 1, "logit_bias": {5: 100.0}, "logprobs": True}
            await client.generate(session, prompt_ids=prompt, sampling_params=params)

        await force()
        await asyncio.gather(*(force() for _ in range(requests - 1)))

    await asyncio.gather(*map(chat, sessions))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chats", type=int, default=128, help="candidates of a step")
    parser.add_argument("--requests", type=int, default=20, help="of a chat")
    parser.add_argument("--tokens", type=int, default=400, help="of a chat")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median counts")
    chosen = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR")
    servers = {"it": ray.remote(Server).options(max_concurrency=1000).remote()}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"name": "vllm"}}})
    apart = [uuid.uuid4().hex for _ in range(chosen.chats)]
    arms = {
        "verl's own": (LLMServerClient(config, get_router_handle(servers)), apart),
        "the judge's": (AddressedClient(config, servers), ["it"] * chosen.chats),
    }
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(1 + chosen.repeats):
        for name, (client, sessions) in arms.items():
            begun = time.perf_counter()
            asyncio.run(score(client, sessions, chosen.requests, chosen.tokens))
            seconds[name].append(time.perf_counter() - begun)
    own, judges = (statistics.median(taken[1:]) for taken in seconds.values())
    print(f"{chosen.chats} chats of {chosen.requests} requests of {chosen.tokens} tokens, medians")
    print(f"verl's own client   {own:6.2f} s\nthe judge's client  {judges:6.2f} s")
    print(f"ratio               {judges / own:6.2f}")


if __name__ == "__main__":
    main()
