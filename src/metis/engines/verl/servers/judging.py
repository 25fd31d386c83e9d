"""Judging on verl's rollout servers: replies, and log-probabilities of choices.

Choices are scored with one call per server, which runs inside it (`in_server`). Other backends
only report the log-probability of the sampled token: there each token is forced with logit_bias, in
its own request.
"""

import asyncio
import functools
import itertools
import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from verl.workers.rollout.llm_server import LLMServerClient

from metis.core import Chat, Completion, Sampling, Trajectory
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.encoding import encode_chats, encode_to_score, separators
from metis.engines.verl.servers import in_server
from metis.engines.verl.servers.in_server import Question
from metis.engines.verl.servers.liveness import SERVER, asking
from metis.engines.verl.servers.questions import by_chat, choice_logprobs, in_waves, questions
from metis.errors import MetisError

FORCE = 100.0
"""logit_bias to force a token, the maximum that servers accept."""

BETWEEN_LOOKS = 0.01
"""Seconds between polls of a server that scores."""


class Servers:
    """Queries the rollout servers, and checks that they have the current weights.

    `context` is the maximum sequence length, `row` the maximum length of an update row, which may
    pack several sequences of a scored judgment.
    """

    def __init__(
        self, client: Any, tokenizer: Any, config: Any, context: int, row: float = math.inf
    ) -> None:
        self.client, self.context, self.row = client, context, row
        self.tokenizer: Any = tokenizer
        self.rollout = config.actor_rollout_ref.rollout
        self.template = dict(config.data.get("apply_chat_template_kwargs", None) or {})
        self.separators = separators(tokenizer)
        self.ends: dict[str, list[int]] = {}
        self.scored: dict[int, tuple[Chat, list[int]]] = {}
        self.processed = 0

    def encode_chat(self, chat: Chat) -> list[int]:
        """The tokens of a chat, with the generation prompt."""
        tokens: list[int] = self.tokenizer.apply_chat_template(
            list(chat),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **self.template,
        )
        return tokens

    def render(self, chat: Chat) -> str:
        """A chat rendered by the chat template, with the generation prompt."""
        text: str = self.tokenizer.apply_chat_template(
            list(chat), add_generation_prompt=True, tokenize=False, **self.template
        )
        return text

    def encode_reply(self, text: str) -> list[int]:
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def complete(self, chats: Sequence[Chat], sampling: Sampling, version: int) -> list[Completion]:
        """One reply per chat; empty if the chat exceeds the context window."""
        params: dict[str, Any] = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        if sampling.stop:
            params["stop"] = list(sampling.stop)

        async def reply(server: str, prompt: list[int]) -> Completion:
            room = min(sampling.max_tokens, self.context - len(prompt))
            if room < 1:
                return self._completion(prompt, [], [], False, version)
            limits = {**params, "max_tokens": room}
            tokens, logprobs = await self._generate(server, prompt, limits, version)
            return self._completion(prompt, tokens, logprobs, len(tokens) < room, version)

        return self._deal(reply, encode_chats(self, chats))

    def _completion(
        self, prompt: list[int], tokens: list[int], logprobs: list[float], short: bool, version: int
    ) -> Completion:
        """verl reports no finish reason: shorter than the limit, or with EOS, means stopped."""
        ended = short or (bool(tokens) and tokens[-1] == self.tokenizer.eos_token_id)
        zeros = [0.0] * len(prompt)
        trajectory = Trajectory(
            tokens=np.array([*prompt, *tokens], dtype=np.int64),
            loss_mask=np.arange(len(prompt) + len(tokens)) >= len(prompt),
            logprobs=np.array([*zeros, *logprobs], dtype=np.float32),
            policy=version,
        )
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return Completion(text, trajectory, "stop" if ended else "length")

    def score(
        self, chats: Sequence[Chat], choices: Sequence[str], version: int
    ) -> list[list[float]]:
        """Log-probabilities of the choices, given their common prefix."""
        tree = ChoiceTree.of([self.encode_reply(choice) for choice in choices])
        room = min(self.context - max(map(len, tree.paths)), tree.room(self.row))
        contexts = encode_to_score(self, chats)
        asked = [questions(context, tree) for context in contexts if len(context) <= room]
        servers = list(self.client.servers)
        dealt = [asked[i :: len(servers)] for i in range(len(servers))]
        replies = self._gather(
            self._answers(server, share, version)
            for server, share in zip(servers, dealt, strict=True)
        )
        rows = [
            choice_logprobs(tree, replies[i % len(servers)][i // len(servers)])
            for i in range(len(asked))
        ]
        unasked = [-math.inf] * len(choices)
        remaining = iter(rows)
        return [next(remaining) if len(context) <= room else unasked for context in contexts]

    def _deal(
        self, ask: Callable[[str, list[int]], Awaitable[Any]], prompts: Sequence[list[int]]
    ) -> list[Any]:
        """The replies to all prompts, submitted at once, round-robin over the servers."""
        return self._gather(map(ask, itertools.cycle(self.client.servers), prompts))

    def _gather(self, asked: Iterable[Awaitable[Any]]) -> list[Any]:
        async def gather() -> list[Any]:
            return await asyncio.gather(*asked)

        with asking(SERVER):
            return asyncio.run(gather())

    async def _answers(
        self, server: str, chats: Sequence[list[Question]], version: int
    ) -> list[list[list[float]]]:
        """The answers of one server to the questions of its chats."""
        if not chats:
            return []
        waves = in_waves(chats)
        if self.rollout.name not in in_server.BACKENDS:
            forced = functools.partial(self._force, server, version)
            return by_chat(await in_server.answered(forced, waves), chats)
        self.processed += sum(len(question.prompt) + 1 for wave in waves for question in wave)
        handle, name = self.client.servers[server], uuid.uuid4().hex
        await handle.__ray_call__.remote(in_server.begin_answers, self.rollout.name, name, waves)
        while (
            answers := await handle.__ray_call__.remote(in_server.collect_answers, name)
        ) is None:
            await asyncio.sleep(BETWEEN_LOOKS)
        for written_by in answers.versions:
            _require_version(written_by, version)
        return by_chat(answers.rows, chats)

    async def _force(self, server: str, version: int, question: Question) -> list[float]:
        """One request per token, forced by logit_bias."""

        async def force(token: int) -> float:
            params = {"temperature": 1.0, "max_tokens": 1, "logit_bias": {token: FORCE}}
            tokens, logprobs = await self._generate(server, question.prompt, params, version)
            if tokens != [token]:
                raise MetisError(
                    f"actor_rollout_ref.rollout.name = {self.rollout.name!r}: its server does not "
                    "support logit_bias, which curriculum.judge=direct needs, or the logit of a "
                    f"choice's token is {FORCE:g} below the others; use vllm, or "
                    "curriculum.judge=reason"
                )
            return logprobs[0]

        first = await force(question.tokens[0])
        return [first, *await asyncio.gather(*map(force, question.tokens[1:]))]

    async def _generate(
        self, server: str, prompt: list[int], params: dict[str, Any], version: int
    ) -> tuple[list[int], list[float]]:
        output = await self.client.generate(
            server, prompt_ids=prompt, sampling_params={**params, "logprobs": True}
        )
        _require_version(output.extra_fields.get("global_steps"), version)
        tokens = list(output.token_ids)
        if not tokens:
            raise RuntimeError(f"a rollout server gave no reply ({output.stop_reason})")
        self.processed += len(prompt) + len(tokens)
        return tokens, list(output.log_probs)


def _require_version(written_by: int | None, version: int) -> None:
    if written_by != version:
        raise RuntimeError(
            f"a rollout server has the weights of step {written_by}, the actor those of step "
            f"{version}"
        )


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
