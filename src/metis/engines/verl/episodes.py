"""A verl agent loop for the multi-turn episodes of any task.

The policy's own tokens are never re-tokenized; only the text between two of its turns is encoded.
Environment turns and rewards run concurrently with the generation of other rollouts.
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
from verl.utils.profiler import simple_timer

from metis.core import Chat, Message
from metis.engines.tokens.encoding import between_turns
from metis.engines.verl.launch.from_recipe import AGENT_LOOP
from metis.engines.verl.reward import LoadedTask, loaded_task
from metis.engines.verl.servers.said import failed, handed_on
from metis.tasks.base import Episode

logger = logging.getLogger(__name__)


@dataclass
class Conversation:
    """A rollout in progress: its response tokens, with the loss mask of the policy's own."""

    chat: list[Message]
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: int = 1
    spoken: list[Message] = field(default_factory=list)
    """The turns of the policy and of the environment."""
    written_by: dict[str, Any] = field(default_factory=dict)
    """verl's fields for the versions of the weights that sampled it."""

    def add(self, tokens: Sequence[int], logprobs: Sequence[float], written: bool) -> None:
        self.tokens += tokens
        self.mask += [int(written)] * len(tokens)
        self.logprobs += logprobs
        self.turns += 1


class EpisodeLoop(AgentLoopBase):  # type: ignore[misc]
    """Runs an episode on verl's rollout servers, and computes its reward.

    If a turn or the reward raises, the rollout so far is kept and marked as failed.
    """

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        named = self.config.reward.custom_reward_function.reward_kwargs
        task = loaded_task(**OmegaConf.to_container(named, resolve=True))
        episode = task.episode(row["extra_info"])
        metrics: dict[str, Any] = {}
        asked = list(episode.chat)
        rollout = Conversation(
            list(asked), await self.ct_build_initial_tokens([dict(said) for said in asked])
        )
        try:
            await self._play(task, episode, rollout, sampling_params, metrics)
            with simple_timer("compute_score", metrics):
                reward = await task.reward(episode)
        except Exception as error:
            if not rollout.tokens:  # verl has no place for it
                raise
            logger.warning("a rollout failed", exc_info=error)
            reward = failed(error)
        return AgentLoopOutput(
            prompt_ids=rollout.prompt,
            response_ids=rollout.tokens,
            response_mask=rollout.mask,
            response_logprobs=rollout.logprobs or None,
            reward_score=reward["score"],
            num_turns=rollout.turns,
            metrics=metrics,
            extra_fields={
                **rollout.written_by,
                "reward_extra_info": reward,
                **handed_on(asked, rollout.spoken),
            },
        )

    async def _play(
        self,
        task: LoadedTask,
        episode: Episode,
        rollout: Conversation,
        sampling: dict[str, Any],
        metrics: dict[str, Any],
    ) -> None:
        """Generate turns until the episode ends."""
        request, going = uuid.uuid4().hex, True
        while going:
            with simple_timer("generate_sequences", metrics):
                said = await self._speak(rollout, request, task.longest, sampling)
            rollout.spoken.append({"role": "assistant", "content": said})
            with simple_timer("tool_calls", metrics):
                answers = await task.turn(episode, said)
            rollout.spoken += answers or ()
            going = answers is not None and self._hear(rollout, said, answers)

    async def _speak(
        self, rollout: Conversation, request: str, longest: int, sampling: dict[str, Any]
    ) -> str:
        """Generate the policy's turn, within the remaining tokens."""
        limit = min(longest, self._room(rollout))
        output = await self.server_manager.generate(
            request_id=request,
            prompt_ids=rollout.prompt + rollout.tokens,
            sampling_params={**sampling, "max_tokens": limit},
        )
        tokens = output.token_ids[:limit]
        rollout.add(tokens, (output.log_probs or [])[:limit], written=True)
        first = rollout.written_by.get("min_global_steps")
        rollout.written_by = dict(output.extra_fields)
        if first is not None:
            rollout.written_by["min_global_steps"] = first
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _hear(self, rollout: Conversation, said: str, answers: Sequence[Message]) -> bool:
        """Append the environment's turn; False if no tokens remain for another turn."""
        end = self.tokenizer.eos_token_id
        ends = [self.tokenizer.decode([end])] if rollout.tokens[-1:] == [end] else []
        text = between_turns(self._render, rollout.chat, answers, ends)
        between = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(between) >= self._room(rollout):
            return False
        rollout.add(between, [0.0] * len(between) if rollout.logprobs else [], written=False)
        rollout.chat += [{"role": "assistant", "content": said}, *answers]
        return True

    def _room(self, rollout: Conversation) -> int:
        return int(self.rollout_config.response_length) - len(rollout.tokens)

    def _render(self, chat: Chat) -> str:
        text: str = self.tokenizer.apply_chat_template(
            list(chat),
            add_generation_prompt=True,
            tokenize=False,
            **self.apply_chat_template_kwargs,
        )
        return text


def register_loop() -> None:
    """Register the loop with verl in this process."""
    register(AGENT_LOOP)(EpisodeLoop)
