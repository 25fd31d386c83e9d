"""The local engine: one model in this process answers, plays, judges and learns."""

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
    Engine,
    Evidence,
    Group,
    Prompt,
    Sampling,
    Trajectory,
    state,
)
from metis.core.predictors import Predictor
from metis.engines import model_files, trial
from metis.engines.learners.learner import Learner, Question, Reader, load_learner, save_learner
from metis.engines.local.checkpoint import load_training, save_training
from metis.engines.local.device_errors import device_remedies
from metis.engines.local.generate.sampling import Reply, in_order, stream
from metis.engines.local.generate.vllm import VllmSampler, require_vllm
from metis.engines.local.model.backbone import Copy
from metis.engines.local.model.forward import scores
from metis.engines.local.model.hidden_states import embed
from metis.engines.local.model.policy import Policy
from metis.engines.local.rollouts.episodes import play
from metis.engines.local.rollouts.failures import FailureNotices, require_reward
from metis.engines.local.settings import Local
from metis.engines.local.starting import compiling, loading, starting_vllm
from metis.engines.local.update.gradients import remember_old, remember_reference
from metis.engines.local.update.rows import minibatches
from metis.engines.local.update.step import Stepper, mean_metrics
from metis.engines.local.update.stopwatch import Stopwatch
from metis.engines.rewards import RewardRunner
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.encoding import encode_chats, encode_to_score
from metis.engines.tokens.packing import Bundle, shareable
from metis.errors import MetisError
from metis.run.first_validation import FirstValidation
from metis.run.waiting import Count, Say, no_progress
from metis.tasks.base import Task, scorers

LIGHTER = 4
"""Times as many tokens as in the update that are judged at once: nothing is kept for gradients."""


PART = 32
"""Held-out prompts whose rewards are written down together in the first validation on a CPU."""


class LocalEngine(Engine):
    """Answers every request with one model, and trains it."""

    def __init__(self, settings: Local, task: Task, seed: int = 0, say: Say = print) -> None:
        self.settings, self.task, self.seed, self.say = settings, task, seed, say
        scorers(task)  # before a model is loaded for rewards that cannot be computed
        tried = trial.notices(task, settings.reward_timeout)
        require_vllm(settings)
        torch.manual_seed(seed)
        if settings.compile:
            say(compiling())
        with device_remedies(settings):
            self.folder = model_files.model(settings.model, say)
            self.policy = self._initial_policy()
            self.reference = self._reference() if settings.kl else None
            self.vllm = self._vllm_sampler()
        self.generator = torch.Generator(self.policy.device).manual_seed(seed)
        self.stepper = Stepper(self.policy, settings)
        self.learners: dict[Predictor, Learner] = {}
        self.rewards = RewardRunner(settings.reward_timeout, settings.reward_workers)
        self.failures = FailureNotices()
        self.failures.untold += tried
        self.version = 0
        self.judging = Stopwatch(self.clock)
        if (count := _gpus(self.policy.device)) > 1:
            self.failures.untold.append(
                f"this machine has {count} GPUs, of which the local engine uses one: for all of "
                f"them use engine=verl engine.gpus={count}"
            )

    # Answers

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        prompts = encode_chats(self.policy, chats)
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) < self.policy.context]
        replies = in_order(self._stream([prompts[i] for i in fits], 1, sampling))
        reply_of = dict(zip(fits, replies, strict=True))
        return [
            self._completion(prompt, reply_of.get(i, Reply([], [])))
            for i, prompt in enumerate(prompts)
        ]

    def _completion(self, prompt: list[int], reply: Reply) -> Completion:
        size = len(prompt)
        trajectory = Trajectory(
            tokens=np.array(prompt + reply.tokens, dtype=np.int64),
            loss_mask=np.array([False] * size + [True] * len(reply.tokens)),
            logprobs=np.array([0.0] * size + reply.logprobs, dtype=np.float32),
            policy=self.version,
        )
        return Completion(self.policy.decode(reply.tokens), trajectory, reply.finish)

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]:
        """Log-probabilities; prefixes that chats and choices share are computed once."""
        policy = self.policy
        if policy.windowed:
            raise MetisError(
                f"engine.model = {self.settings.model!r}: some of its layers see a window only, in "
                "which values cannot be scored: use curriculum.judge=reason or readout"
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
        bundle = Bundle(fitting[0][:skip], rows, policy.layout)
        with device_remedies(self.settings, self.policy):
            lighter = LIGHTER if policy.plain and policy.device.type == "cuda" else 1
            nodes = scores(policy, bundle, lighter * self.settings.tokens).reshape(len(fits), -1)
        for i, row in zip(fits, (nodes @ tree.membership.T).tolist(), strict=True):
            values[i] = row
        return values

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]:
        settings = self.settings
        groups, errors = self._play(
            prompts, n, Sampling(settings.max_tokens, settings.temperature, settings.top_p)
        )
        require_reward(groups, errors)
        return groups

    def _play(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling
    ) -> tuple[list[Group], list[Exception]]:
        rows, version = self.settings.rows, self.version
        arguments = (self.policy, self.task, prompts, n, sampling, self._stream)
        limit = self.settings.episode_tokens
        groups, errors = play(*arguments, self.rewards, rows, version, limit)
        self.failures.add(errors)
        return groups, errors

    def _stream(
        self, prompts: Sequence[list[int]], copies: int, sampling: Sampling
    ) -> Iterator[tuple[int, Reply]]:
        rows, generator = self.settings.rows, self.generator
        with device_remedies(self.settings, self.policy):
            if self.vllm is not None:
                yield from enumerate(self.vllm.sample(prompts, copies, sampling, generator))
            else:
                yield from stream(self.policy, prompts, copies, sampling, generator, rows)

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> list[NDArray[np.float32]]:
        """States of the last token of each prompt, or chat."""
        with device_remedies(self.settings, self.policy):
            states = embed(self.policy, self._encode(prompts), self.settings.tokens, depths)
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
            if self.vllm is not None:
                self.vllm.sleep()
            return self._learner(model).fit(self._question(prompts, evidence), targets)

    def _learner(self, model: Predictor) -> Learner:
        """The learned model of this description, made when it is first asked for."""
        if model not in self.learners:
            policy, settings = self.policy, self.settings
            size = policy.base.config.get_text_config().hidden_size
            reader = Reader(
                lambda tokens: embed(policy, tokens, settings.tokens), size, policy.device
            )
            self.learners[model] = Learner(model, reader, self.seed, self._backbone)
        return self.learners[model]

    def _backbone(self) -> Copy:
        return Copy(self._initial_policy(), self.settings.tokens, self.settings.checkpointing)

    def _question(self, prompts: Sequence[Prompt], evidence: Evidence) -> Question:
        return Question.of(prompts, evidence, self._encode)

    def _encode(self, prompts: Sequence[Prompt] | Sequence[Chat]) -> list[list[int]]:
        """The prompt that the policy reads; the end of it where it exceeds the context."""
        chats = [self.task.episode(x).chat if isinstance(x, Prompt) else x for x in prompts]
        policy = self.policy
        return [tokens[-policy.context :] for tokens in encode_chats(policy, chats)]

    # Learning

    def update(self, batch: Batch) -> Mapping[str, float]:
        """One pass over the batch: an optimizer step for each of its mini-batches."""
        settings, policy = self.settings, self.policy
        cut = minibatches(policy, batch, settings, self.version, self.judging)
        with device_remedies(self.settings, self.policy):
            if self.vllm is not None:
                self.vllm.sleep()
            if len(cut) > 1:
                for minibatch in cut:
                    remember_old(policy, minibatch, settings, self.judging)
            if self.reference is not None:
                for minibatch in cut:
                    remember_reference(self.reference, minibatch, settings)
            steps = [
                self.stepper.step(minibatch, batch.judge_share, self.judging)
                for minibatch in cut
                if minibatch.items
            ]
            self.version += 1
            if self.vllm is not None:
                self.vllm.sync(policy)
        return {
            "update/rows": float(sum(len(minibatch.items) for minibatch in cut)),
            "update/skipped_rows": float(sum(minibatch.skipped for minibatch in cut)),
            "update/steps": float(len(steps)),
            **mean_metrics(steps),
        }

    def _initial_policy(self) -> Policy:
        self.say(loading(self.settings.model, self.folder))
        return Policy(self.folder, self.settings)

    def _reference(self) -> Policy:
        """The reference policy of the KL term, which is the initial one."""
        reference = self._initial_policy()
        reference.network.requires_grad_(False)
        return reference

    # What the training loop needs beside the answers

    @property
    def processed(self) -> int:
        """Tokens that have passed through the policy, here and in vLLM, and the learned models."""
        bodies = [learner.body for learner in self.learners.values() if learner.body is not None]
        readers = [self.policy, *bodies, *([self.vllm] if self.vllm is not None else [])]
        return sum(reader.processed for reader in readers)

    @property
    def laps(self) -> dict[str, float]:
        """Seconds of an update that went into the judge, and of rollouts into rewards."""
        return {"judge": self.judging.seconds, "reward": self.rewards.waited}

    @property
    def notices(self) -> list[str]:
        """Remarks on the task's code."""
        return self.failures.untold

    def clock(self) -> float:
        if self.policy.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    @property
    def slow(self) -> bool:
        """True where a CPU generates, and whoever waits wants to hear of small parts."""
        return self.policy.device.type == "cpu"

    def counting(self, heard: Callable[[int], object]) -> AbstractContextManager[None]:
        """Tell how many episodes are over, with every one that ends."""
        return self.rewards.counting(heard)

    def evaluate(
        self, count: Count = no_progress, first: FirstValidation | None = None
    ) -> list[tuple[str, float | None]]:
        """Greedy answers to the held-out prompts: id and reward of each, None where it failed.

        What `first` has is not asked again, and it is told of every part that is answered.
        """
        whole = self.task.heldout()
        known = first.rewards if first else {}
        prompts = [prompt for prompt in whole if prompt.id not in known]
        answered = len(whole) - len(prompts)
        rewards = dict(known)
        size = PART if first else max(1, len(prompts))
        with self.rewards.counting(lambda done: count(answered + done, len(whole))):
            for start in range(0, len(prompts), size):
                part = prompts[start : start + size]
                groups, _ = self._play(part, 1, Sampling(self.settings.max_tokens, 0.0))
                answers = [(group.prompt.id, group.mean) for group in groups]
                rewards |= dict(answers)
                if first:
                    first.keep(answers)
        return [(prompt.id, rewards[prompt.id]) for prompt in whole]

    def reseed(self, seed: int) -> None:
        """Fix what is sampled from here on."""
        self.generator.manual_seed(seed)

    def close(self) -> None:
        """Let go of the threads of rewards; what is on a device goes with the engine."""
        self.rewards.close()

    def written(self, trajectory: Trajectory) -> str:
        return self.policy.decode(trajectory.tokens[trajectory.loss_mask].tolist())

    def save(self, folder: Path) -> None:
        save_training(folder, self.policy, self.stepper.optimizer, self.generator)
        for i, learner in enumerate(self.learners.values()):
            save_learner(folder, i, learner)
        saved: dict[str, Any] = {"policy": self.version, "seed": self.seed}
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
            if self.vllm is not None:
                self.vllm.sync(self.policy)

    def _vllm_sampler(self) -> Any:
        if self.settings.generation == "transformers":
            return None
        self.say(starting_vllm(self.settings))
        return VllmSampler(self.policy, self.settings)


def _gpus(device: torch.device) -> int:
    return torch.cuda.device_count() if device.type == "cuda" else 0
