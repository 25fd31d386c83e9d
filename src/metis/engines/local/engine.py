"""The local engine: one model in this process generates, judges and is trained."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from metis.core import (
    LAST,
    Batch,
    Chat,
    Completion,
    Counts,
    Engine,
    Evidence,
    Group,
    Prompt,
    Sampling,
    Trajectory,
    state,
)
from metis.core.predictors import Predictor
from metis.engines import model_files
from metis.engines.learners import (
    Learner,
    PredictorInput,
    Reader,
    load_learner,
    save_learner,
)
from metis.engines.local.device_errors import device_remedies
from metis.engines.local.generate.sampling import OwnSampler, SampledReply, Sampler, ordered_replies
from metis.engines.local.generate.vllm import VllmSampler, require_vllm
from metis.engines.local.model.checkpoint import load_training, save_training
from metis.engines.local.model.forward import no_grad_logprobs, packs_alike
from metis.engines.local.model.hidden_states import ValueBackbone, embed_tokens
from metis.engines.local.model.policy import Policy
from metis.engines.local.rollouts import FailureNotices, play, require_reward
from metis.engines.local.settings import LocalSettings
from metis.engines.local.starting import compiling, loading, starting_vllm
from metis.engines.local.update.gradients import remember_old, remember_reference
from metis.engines.local.update.rows import local_minibatches
from metis.engines.local.update.step import Stepper, mean_metrics
from metis.engines.local.update.stopwatch import Stopwatch
from metis.engines.rewards import RewardRunner, trial_notices
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.encoding import encode_chats, encode_to_score
from metis.engines.tokens.packing import PrefixGroup, shareable
from metis.errors import MetisError
from metis.run.first_validation import FirstValidation
from metis.run.waiting import Count, Hear, Say, no_progress, unheard
from metis.tasks.base import Task, scorers

NO_GRAD_FACTOR = 4
"""Token-budget multiplier for no-grad scoring."""


class LocalEngine(Engine):
    """Answers every request with one model, and trains it."""

    def __init__(
        self, settings: LocalSettings, task: Task, seed: int = 0, say: Say = print
    ) -> None:
        self.settings, self.task, self.seed, self.say = settings, task, seed, say
        scorers(task)  # fails before a model is loaded if rewards cannot be computed
        tried = trial_notices(task, settings.reward_timeout)
        require_vllm(settings)
        torch.manual_seed(seed)
        if settings.compile:
            say(compiling())
        with device_remedies(settings):
            self.folder = model_files.model(settings.model, say)
            self.policy = self._initial_policy()
            self.reference = self._reference() if settings.kl else None
            self.sampler = self._sampler()
        self.generator = torch.Generator(self.policy.device).manual_seed(seed)
        self.stepper = Stepper(self.policy, settings)
        self.learners: dict[Predictor, Learner] = {}
        self.rewards = RewardRunner(settings.reward_timeout, settings.reward_workers)
        self.failures = FailureNotices()
        self.failures.pending += tried
        self.version = 0
        self.judging = Stopwatch(self.clock)
        if (count := _gpus(self.policy.device)) > 1:
            self.failures.pending.append(
                f"this machine has {count} GPUs, but the local engine uses one: to use all, set "
                f"engine=verl engine.gpus={count}"
            )

    @property
    def rows(self) -> int:
        return self.settings.round(self.policy.device.type)

    # Answers

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        prompts = encode_chats(self.policy, chats)
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) < self.policy.context]
        replies = ordered_replies(self._stream([prompts[i] for i in fits], 1, sampling))
        reply_of = dict(zip(fits, replies, strict=True))
        return [
            self._completion(prompt, reply_of.get(i, SampledReply([], [])))
            for i, prompt in enumerate(prompts)
        ]

    def _completion(self, prompt: list[int], reply: SampledReply) -> Completion:
        size = len(prompt)
        trajectory = Trajectory(
            tokens=np.array(prompt + reply.tokens, dtype=np.int64),
            loss_mask=np.array([False] * size + [True] * len(reply.tokens)),
            logprobs=np.array([0.0] * size + reply.logprobs, dtype=np.float32),
            policy=self.version,
        )
        return Completion(self.policy.decode(reply.tokens), trajectory, reply.finish)

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]:
        """Log-probabilities of the choices; shared prefixes are computed once."""
        policy = self.policy
        if policy.windowed:
            raise MetisError(
                f"engine.model = {self.settings.model!r}: choices cannot be scored with its "
                "sliding-window attention: use curriculum.judge=reason or readout"
            )
        tree = ChoiceTree.of([policy.encode_reply(choice) for choice in choices])
        contexts = encode_to_score(policy, chats)
        room = policy.context - max(map(len, tree.paths))
        fits = [i for i, context in enumerate(contexts) if len(context) <= room]
        fits.sort(key=lambda i: len(contexts[i]))  # little padding
        values = [[-math.inf] * len(choices) for _ in chats]
        if not fits:
            return values
        fitting = [contexts[i] for i in fits]
        starts = [len(context) - 1 for context in fitting]
        skip = shareable(fitting, starts, policy.layout.aligned)
        rows = [tree.row(context[skip:]) for context in fitting]
        group = PrefixGroup(fitting[0][:skip], rows, policy.layout)
        with device_remedies(self.settings, self.policy):
            lighter = NO_GRAD_FACTOR if policy.plain and policy.device.type == "cuda" else 1
            nodes = no_grad_logprobs(policy, group, lighter * self.settings.tokens).reshape(
                len(fits), -1
            )
        for i, row in zip(fits, (nodes @ tree.membership.T).tolist(), strict=True):
            values[i] = row
        return values

    def rollout(self, prompts: Sequence[Prompt], n: Counts) -> list[Group]:
        settings = self.settings
        groups, errors = self._play(
            prompts, n, Sampling(settings.max_tokens, settings.temperature, settings.top_p)
        )
        require_reward(groups, errors)
        return groups

    def _play(
        self, prompts: Sequence[Prompt], n: Counts, sampling: Sampling
    ) -> tuple[list[Group], list[Exception]]:
        rows, version = max(self.settings.rows, self.rows), self.version
        arguments = (self.policy, self.task, prompts, n, sampling, self._stream)
        limit = self.settings.episode_tokens
        groups, errors = play(*arguments, self.rewards, rows, version, limit)
        self.failures.add(errors)
        return groups, errors

    def _stream(
        self, prompts: Sequence[list[int]], copies: Counts, sampling: Sampling
    ) -> Iterator[tuple[int, SampledReply]]:
        with device_remedies(self.settings, self.policy):
            yield from self.sampler.sample(prompts, copies, sampling, self.generator)

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> list[NDArray[np.float32]]:
        """Hidden states of the last token of each prompt, or chat."""
        with device_remedies(self.settings, self.policy):
            states = embed_tokens(self.policy, self._encode(prompts), self.settings.tokens, depths)
        return list(states.cpu().numpy())

    def predict(
        self, prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
    ) -> list[float]:
        with device_remedies(self.settings, self.policy):
            return self._learner(model).predict(self._question(prompts, evidence))

    def fit(
        self,
        prompts: Sequence[Prompt],
        targets: Sequence[float],
        model: Predictor,
        evidence: Evidence = (),
    ) -> float:
        with device_remedies(self.settings, self.policy):
            self.sampler.sleep()
            return self._learner(model).fit(self._question(prompts, evidence), targets)

    def _learner(self, model: Predictor) -> Learner:
        """The learner of this predictor, built at its first use."""
        if model not in self.learners:
            policy, settings = self.policy, self.settings
            size = policy.base.config.get_text_config().hidden_size
            reader = Reader(
                lambda tokens: embed_tokens(policy, tokens, settings.tokens), size, policy.device
            )
            self.learners[model] = Learner(model, reader, self.seed, self._backbone)
        return self.learners[model]

    def _backbone(self) -> ValueBackbone:
        return ValueBackbone(
            self._initial_policy(), self.settings.tokens, self.settings.checkpointing
        )

    def _question(self, prompts: Sequence[Prompt], evidence: Evidence) -> PredictorInput:
        return PredictorInput.of(prompts, evidence, self._encode)

    def _encode(self, prompts: Sequence[Prompt] | Sequence[Chat]) -> list[list[int]]:
        """Token ids of the policy's prompts, left-truncated to the context window."""
        chats = [self.task.episode(x).chat if isinstance(x, Prompt) else x for x in prompts]
        policy = self.policy
        return [tokens[-policy.context :] for tokens in encode_chats(policy, chats)]

    # Learning

    def update(self, batch: Batch) -> Mapping[str, float]:
        """One epoch over the batch: an optimizer step per mini-batch."""
        settings, policy = self.settings, self.policy
        cut = local_minibatches(policy, batch, settings, self.version, self.judging)
        with device_remedies(self.settings, self.policy):
            self.sampler.sleep()
            if len(cut) > 1:
                for minibatch in cut:
                    remember_old(policy, minibatch, settings, self.judging)
            if self.reference is not None:
                for minibatch in cut:
                    remember_reference(self.reference, minibatch, settings)
            steps = [
                self.stepper.step(minibatch, batch.gradient_share, self.judging)
                for minibatch in cut
                if minibatch.items
            ]
            self.version += 1
            self.sampler.sync(policy)
        return {
            "update/rows": float(sum(len(minibatch.items) for minibatch in cut)),
            "update/skipped_rows": float(sum(minibatch.skipped for minibatch in cut)),
            "update/steps": float(len(steps)),
            **mean_metrics(steps),
        }

    def _initial_policy(self) -> Policy:
        self.say(loading(self.settings.model, self.folder))
        policy = Policy(self.folder, self.settings)
        policy.packs = policy.packs and packs_alike(policy)
        return policy

    def _reference(self) -> Policy:
        """The reference policy of the KL term: the initial policy, frozen."""
        reference = self._initial_policy()
        reference.network.requires_grad_(False)
        return reference

    # What the training loop needs beside the answers

    @property
    def processed(self) -> int:
        """Total tokens of all forward passes: policy, vLLM and predictors."""
        bodies = [learner.body for learner in self.learners.values() if learner.body is not None]
        own = self.policy.processed + self.sampler.processed
        return own + sum(body.processed for body in bodies)

    @property
    def laps(self) -> dict[str, float]:
        """Seconds of updates spent on the judge, and of rollouts spent waiting for rewards."""
        return {"judge": self.judging.seconds, "reward": self.rewards.waited}

    @property
    def notices(self) -> list[str]:
        """Pending notices."""
        return self.failures.pending

    def clock(self) -> float:
        if self.policy.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def counting(self, heard: Callable[[int], object]) -> AbstractContextManager[None]:
        """Report the number of finished episodes, whenever one finishes."""
        return self.rewards.counting(heard)

    def evaluate(
        self,
        count: Count = no_progress,
        first: FirstValidation | None = None,
        heard: Hear = unheard,
    ) -> list[tuple[str, float | None]]:
        """Greedy decoding of the held-out prompts: id and reward of each, None where it failed.

        Rewards in `first` are reused, and new ones are saved to it round by round, after `heard`.
        """
        whole = self.task.heldout()
        known = first.rewards if first else {}
        prompts = [prompt for prompt in whole if prompt.id not in known]
        answered = len(whole) - len(prompts)
        rewards = dict(known)
        with self.rewards.counting(lambda done: count(answered + done, len(whole))):
            for start in range(0, len(prompts), self.rows):
                part = prompts[start : start + self.rows]
                groups, _ = self._play(part, 1, Sampling(self.settings.max_tokens, 0.0))
                heard(groups)
                answers = [(group.prompt.id, group.mean) for group in groups]
                rewards |= dict(answers)
                if first:
                    first.keep(answers)
        return [(prompt.id, rewards[prompt.id]) for prompt in whole]

    def reseed(self, seed: int) -> None:
        """Seed all sampling from here on."""
        self.generator.manual_seed(seed)

    def close(self) -> None:
        """Stop the reward threads."""
        self.rewards.close()

    def save(self, folder: Path) -> None:
        save_training(folder, self.policy, self.stepper.optimizer, self.generator)
        for i, learner in enumerate(self.learners.values()):
            save_learner(folder, i, learner)
        saved: dict[str, Any] = {"policy": self.version, "seed": self.seed}
        saved["generation"] = self.settings.generation
        saved |= {"non_finite": self.stepper.non_finite, "bound": self.stepper.bound.state_dict()}
        state.save_state(folder / "engine.state", {**saved, "learners": list(self.learners)})

    def load(self, folder: Path) -> None:
        saved = state.load_state(folder / "engine.state")
        self.version, self.seed = saved["policy"], saved["seed"]
        self.stepper.non_finite = saved["non_finite"]
        self.stepper.bound.load_state_dict(saved.get("bound", {"mean": None}))
        with device_remedies(self.settings, self.policy):
            load_training(folder, self.policy, self.stepper.optimizer, self.generator)
            self.learners.clear()
            for i, model in enumerate(saved["learners"]):
                load_learner(folder, i, self._learner(model))
            self.sampler.sync(self.policy)

    def _sampler(self) -> Sampler:
        if self.settings.generation != "vllm":
            return OwnSampler(self.policy, self.settings.rows)
        self.say(starting_vllm(self.settings))
        return VllmSampler(self.policy, self.settings)


def _gpus(device: torch.device) -> int:
    return torch.cuda.device_count() if device.type == "cuda" else 0
