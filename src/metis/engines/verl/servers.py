"""Judging through verl's rollout servers: replies, and log-probabilities of choices.

A server samples and reports the log-probability of what it sampled. A choice is scored by forcing
its tokens one at a time; what choices begin with is asked for once, and the servers' prefix cache
makes every request after the first of a chat a single short step.
"""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from metis.core import Chat, Completion, Sampling, Trajectory
from metis.engines.local.choices import ChoiceTree
from metis.engines.local.encoding import encode_chats, encode_to_score, separators
from metis.engines.verl.checks import require_raw_logprobs
from metis.engines.verl.pulse import SERVER, asking
from metis.errors import MetisError

FORCE = 100.0
"""Added to a token's logit, the most that servers take: hardly ever is another sampled then.

vLLM's `allowed_token_ids` would say it better, but vLLM 0.24 was seen to sample another token.
"""


class Servers:
    """Asks the rollout servers, and makes sure that they have the weights they should have.

    `context` is the longest sequence that they take and an update can train on.
    """

    def __init__(self, client: Any, tokenizer: Any, config: Any, context: int) -> None:
        self.client, self.context = client, context
        self.tokenizer: Any = tokenizer
        self.rollout = config.actor_rollout_ref.rollout
        self.template = dict(config.data.get("apply_chat_template_kwargs", None) or {})
        self.separators = separators(tokenizer)
        self.ends: dict[str, list[int]] = {}
        self.scored: dict[int, tuple[Chat, list[int]]] = {}
        self.processed = 0

    def encode_chat(self, chat: Chat) -> list[int]:
        """The tokens of a chat, up to where the assistant begins to speak."""
        tokens: list[int] = self.tokenizer.apply_chat_template(
            list(chat),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **self.template,
        )
        return tokens

    def render(self, chat: Chat) -> str:
        """A chat as the template writes it, up to where the assistant begins to speak."""
        text: str = self.tokenizer.apply_chat_template(
            list(chat), add_generation_prompt=True, tokenize=False, **self.template
        )
        return text

    def encode_reply(self, text: str) -> list[int]:
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def written(self, trajectory: Trajectory) -> str:
        """What the policy wrote in a rollout."""
        tokens = trajectory.tokens[trajectory.loss_mask].tolist()
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def complete(self, chats: Sequence[Chat], sampling: Sampling, version: int) -> list[Completion]:
        """One reply to each chat; a chat that does not fit the context gets an empty one."""
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
        """verl does not say why a reply ended: one within its limit, or with the end, is whole."""
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
        """Log-probabilities of the choices."""
        require_raw_logprobs(self.rollout)
        tree = ChoiceTree.of([self.encode_reply(choice) for choice in choices])
        depth = max(map(len, tree.paths))

        async def row(server: str, context: list[int]) -> list[float]:
            if len(context) + depth > self.context:
                return [-math.inf] * len(choices)
            nodes = await self._nodes(server, context, tree, version)
            return [math.fsum(nodes[node] for node in path) for path in tree.paths]

        return self._deal(row, encode_to_score(self, chats))

    def _deal(
        self, ask: Callable[[str, list[int]], Awaitable[Any]], prompts: Sequence[list[int]]
    ) -> list[Any]:
        """What is asked of each prompt, all at once, the prompts dealt to the servers."""

        async def gather() -> list[Any]:
            return await asyncio.gather(*map(ask, itertools.cycle(self.client.servers), prompts))

        with asking(SERVER):
            return asyncio.run(gather())

    async def _nodes(
        self, server: str, context: list[int], tree: ChoiceTree, version: int
    ) -> list[float]:
        """Every token of the tree, forced; the first goes ahead and fills the prefix cache."""

        async def force(node: int) -> float:
            path: list[int] = []
            parent = tree.parents[node]
            while parent >= 0:
                path.insert(0, tree.tokens[parent])
                parent = tree.parents[parent]
            params = {
                "temperature": 1.0,
                "max_tokens": 1,
                "logit_bias": {tree.tokens[node]: FORCE},
            }
            tokens, logprobs = await self._generate(server, context + path, params, version)
            if tokens != [tree.tokens[node]]:
                raise MetisError(
                    f"actor_rollout_ref.rollout.name = {self.rollout.name!r}: its server does not "
                    "force tokens (logit_bias), which curriculum.judge.mode=direct needs, or a "
                    f"value's token is {FORCE:g} less likely than others by its logit; use vllm, "
                    "or curriculum.judge.mode=reason"
                )
            return logprobs[0]

        first = await force(0)
        rest = await asyncio.gather(*(force(node) for node in range(1, len(tree.tokens))))
        return [first, *rest]

    async def _generate(
        self, server: str, prompt: list[int], params: dict[str, Any], version: int
    ) -> tuple[list[int], list[float]]:
        output = await self.client.generate(
            server, prompt_ids=prompt, sampling_params={**params, "logprobs": True}
        )
        written_by = output.extra_fields.get("global_steps")
        if written_by != version:
            raise RuntimeError(
                f"a rollout server has the weights of step {written_by}, the actor those of step "
                f"{version}"
            )
        tokens = list(output.token_ids)
        if not tokens:
            raise RuntimeError(f"a rollout server gave no reply ({output.stop_reason})")
        self.processed += len(prompt) + len(tokens)
        return tokens, list(output.log_probs)
