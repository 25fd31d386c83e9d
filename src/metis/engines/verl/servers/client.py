"""A client of verl's rollout servers that asks each by its address."""

import uuid
from collections.abc import Mapping
from typing import Any, Self

from verl.workers.rollout.llm_server import LLMServerClient


class AddressedClient(LLMServerClient):  # type: ignore[misc]
    """Takes the address of a server for the session of a request, and calls no balancer.

    verl's own client calls its balancer before and after every request, more than half of the way
    to a server that answers at once (`benchmarks/verl_requests.py`). Judge prompts are alike and
    known together, so they can be dealt.
    """

    def __init__(self, config: Any, servers: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.servers = servers

    @classmethod
    def of(cls, manager: Any) -> Self:
        """For the servers of an `LLMServerManager`."""
        servers = zip(manager.get_addresses(), manager.server_handles, strict=True)
        return cls(manager.config, dict(servers))

    async def _acquire_server(self, request_id: str, **_: Any) -> tuple[str, Any]:
        return request_id, self.servers[request_id]

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        """Nothing was taken."""

    def _vllm_request_id(self, request_id: str) -> str:
        """Never the address, which many requests have at once."""
        return uuid.uuid4().hex
