"""A client of verl's rollout servers that bypasses the load balancer."""

import uuid
from collections.abc import Mapping
from typing import Any, Self

from verl.workers.rollout.llm_server import LLMServerClient


class AddressedClient(LLMServerClient):  # type: ignore[misc]
    """Takes a server's address as the request id, and calls it directly.

    verl's own client calls its load balancer before and after every request, more than half of the
    latency of a short one (`benchmarks/verl_requests.py`). Judge prompts are similar and known at
    once, so they are assigned round-robin.
    """

    def __init__(self, config: Any, servers: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.servers = servers

    @classmethod
    def of(cls, manager: Any) -> Self:
        """A client for the servers of an `LLMServerManager`."""
        servers = zip(manager.get_addresses(), manager.server_handles, strict=True)
        return cls(manager.config, dict(servers))

    async def _acquire_server(self, request_id: str, **_: Any) -> tuple[str, Any]:
        return request_id, self.servers[request_id]

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        """Nothing to release."""

    def _vllm_request_id(self, request_id: str) -> str:
        """A unique id: many requests share the address."""
        return uuid.uuid4().hex
