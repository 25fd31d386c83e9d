"""A simulated policy: the closed loop of a curriculum in milliseconds, without a language model.

An item-response model solves items of known difficulty, p = sigmoid(slope (ability - difficulty)),
with one ability per skill. `update` is the policy gradient of that model, for a group its reward
variance times the slope: all-pass and all-fail groups have none. The judge is a table of logits per
perceived difficulty: a softmax over the eleven variance values and "no usable answer", and one over
the nine counts of passes. Only the gradient of judgments changes it, bounded as on other engines. A
value model is a table over skill and perceived difficulty, an attention model a fixed kernel.

It can show that a curriculum runs, resumes, counts its costs and closes its loop, and how
exploration, censoring, ties and weights behave with noisy perception and drifting ability. It
cannot show whether a language model can judge itself, what that costs in seconds (the clock is
virtual), or how much accuracy a method gains on real data.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from metis.core import (
    LAST,
    Batch,
    Chat,
    Completion,
    Continuation,
    Counts,
    Engine,
    Evidence,
    Group,
    Judgment,
    Prompt,
    Sampling,
    Trajectory,
    each_count,
    state,
)
from metis.core.pool import Pool, Rewards
from metis.core.predictors import Predictor, ValueModel
from metis.curricula.judges.scale import GRID, PASSES, VARIANCE
from metis.engines.objective.gradient_bound import GradientBound
from metis.engines.objective.minibatches import rows_by_judgment
from metis.errors import require, require_at_least
from metis.run.first_validation import FirstValidation
from metis.run.waiting import Count, Hear, no_progress, unheard
from metis.signal import softmax, variance

BINS = 12
"""Levels of difficulty that the judge distinguishes."""

FAILED = len(GRID)
"""The judge's twelfth outcome: an invalid reply."""

SCALES = ((*VARIANCE.choices, ""), PASSES.choices)
COLUMNS = {choice: i for i, choice in enumerate(itertools.chain(*SCALES))}
"""The column of every answer in the judge's table; the empty text is an invalid reply."""
ENDS = list(itertools.accumulate(map(len, SCALES)))

LONGEST = 160
"""Tokens that no rollout has."""
_MASK = np.arange(LONGEST) > 0
_ZEROS = np.zeros(LONGEST, dtype=np.float32)
PROBLEM = re.compile(r'"""\n(.*?)\n"""', re.DOTALL)


@dataclass(frozen=True)
class Simulation:
    """Settings of the simulated policy.

    prompts     items to train on
    heldout     items for validation
    skills      separate abilities; each is a category of the prompts
    spread      standard deviation of the difficulties, whose mean is `hardness`
    hardness    mean difficulty; ability starts at 0
    slope       how sharply success depends on ability minus difficulty
    noise       standard deviation of the judge's perception of a difficulty
    rewards     `binary`, or `continuous`: the share of ten tests passed
    failures    share of rollouts without a reward
    rate        learning rate of the abilities
    judge_rate  learning rate of the judge
    transfer    share of an ability's gain that the other abilities get
    """

    prompts: int = 2000
    heldout: int = 500
    skills: int = 4
    hardness: float = 1.0
    spread: float = 3.0
    slope: float = 1.5
    noise: float = 0.5
    rewards: Rewards = "binary"
    failures: float = 0.0
    rate: float = 0.1
    judge_rate: float = 300.0
    transfer: float = 0.2

    def __post_init__(self) -> None:
        require_at_least(self, {"prompts": 1, "heldout": 1, "skills": 1}, "engine.")
        for key in ("hardness", "spread", "slope", "noise", "rate", "judge_rate"):
            value = getattr(self, key)
            least = -math.inf if key == "hardness" else 0.0
            require(
                math.isfinite(value) and value >= least,
                f"engine.{key}",
                value,
                "use a finite number, 0 or more",
            )
        for key in ("failures", "transfer"):
            value = getattr(self, key)
            require(0 <= value <= 1, f"engine.{key}", value, "use a share, 0 to 1")


class SimulatedEngine(Engine):
    """Answers every request with an item-response model and a virtual clock."""

    def __init__(self, simulation: Simulation, seed: int = 0, data_seed: int | None = None) -> None:
        self.simulation = simulation
        self.rng = np.random.default_rng([seed, 1])
        world = np.random.default_rng([seed if data_seed is None else data_seed, 0])
        total = simulation.prompts + simulation.heldout
        self.difficulty = world.normal(simulation.hardness, simulation.spread, total)
        self.skill = world.integers(simulation.skills, size=total)
        perceived = self.difficulty + world.normal(0, simulation.noise, total)
        edges = np.quantile(perceived, np.linspace(0, 1, BINS + 1)[1:-1])
        self.level = np.searchsorted(edges, perceived)
        self.ability = np.zeros(simulation.skills)
        self.judge = world.normal(0, 0.3, (BINS, ENDS[-1]))
        self.bound = GradientBound()
        self.values: dict[ValueModel, NDArray[np.float64]] = {}
        self.version = 0
        self.seconds = 0.0
        self.processed = 0
        self.laps: dict[str, float] = {}
        self.notices: list[str] = []
        self._texts = {self._text(i): i for i in range(total)}

    @property
    def pool(self) -> list[Prompt]:
        return [
            Prompt(
                id=f"simulated:{i}",
                text=self._text(i),
                category=f"skill-{self.skill[i]}",
                difficulty=float(self.difficulty[i]),
            )
            for i in range(self.simulation.prompts)
        ]

    @staticmethod
    def _text(item: int) -> str:
        return f"Simulated item {item}."

    # Solving

    def _success(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        margin = self.ability[self.skill[items]] - self.difficulty[items]
        logits = np.clip(self.simulation.slope * margin, -500, 500)
        return np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float64)

    def rollout(self, prompts: Sequence[Prompt], n: Counts) -> list[Group]:
        items, counts = self._items(prompts), each_count(n, prompts)
        most = max(counts, default=0)
        success = np.repeat(self._success(items)[:, None], most, axis=1)
        asked = np.arange(most) < np.array(counts)[:, None]
        tests = 1 if self.simulation.rewards == "binary" else 10
        rewards = self.rng.binomial(tests, success) / tests
        failed = asked & (self.rng.random(rewards.shape) < self.simulation.failures)
        lengths = np.where(asked, self.rng.integers(40, LONGEST, rewards.shape), 0)
        self._spend(int(lengths.sum()), 2e-5)
        groups = []
        valid, lost = asked & ~failed, (lengths * failed).sum(axis=1).tolist()
        for row, prompt in enumerate(prompts):
            sizes, kept = lengths[row, valid[row]].tolist(), rewards[row, valid[row]].tolist()
            trajectories = tuple(self._trajectory(items[row], size) for size in sizes)
            missing = counts[row] - len(kept)
            groups.append(Group(prompt, tuple(kept), trajectories, missing, lost[row]))
        return groups

    def _trajectory(self, item: int, length: int) -> Trajectory:
        """A trajectory whose tokens have no meaning, only a number."""
        tokens = np.full(length + 1, item, dtype=np.int64)
        return Trajectory(tokens, _MASK[: length + 1], _ZEROS[: length + 1], self.version)

    # Judging

    def _item(self, chat: Chat) -> int:
        """The item of a judge prompt."""
        return self._texts[PROBLEM.findall(chat[-1]["content"])[-1]]

    def _outcomes(self, chats: Sequence[Chat]) -> tuple[list[int], NDArray[np.float64]]:
        """The items of judge prompts, and the distributions of the judge's replies.

        Without examples most replies are invalid, as in the paper (87.6 %).
        """
        items = [self._item(chat) for chat in chats]
        shown = [len(chat) > 2 or "[Example 1]" in chat[-1]["content"] for chat in chats]
        logits = self.judge[self.level[items], : FAILED + 1]
        logits[:, FAILED] += np.where(shown, 0.0, 4.5)
        return items, softmax(logits)

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        items, distributions = self._outcomes(chats)
        points = self.rng.random((len(chats), 1))
        outcomes = (np.cumsum(distributions, axis=1) < points).sum(axis=1).clip(max=FAILED)
        self._spend(300 * len(chats), 2e-5)
        completions = []
        for item, outcome, distribution in zip(items, outcomes, distributions, strict=True):
            text, finish = self._reply(outcome)
            trajectory = Trajectory(
                tokens=np.array([item, outcome], dtype=np.int64),
                loss_mask=np.array([False, True]),
                logprobs=np.array([0.0, np.log(distribution[outcome])], dtype=np.float32),
                policy=self.version,
            )
            completions.append(Completion(text, trajectory, finish))
        return completions

    def _reply(self, outcome: int) -> tuple[str, Literal["stop", "length"]]:
        if outcome < FAILED:
            return rf"Judging from the examples: \boxed{{{GRID[outcome]:.2f}}}", "stop"
        kinds: list[tuple[str, Literal["stop", "length"]]] = [
            ("The answer is 37.", "stop"),
            (r"The answer is \boxed{37}", "stop"),
            (r"It is \boxed{\frac{1}{8}}", "stop"),
            ("To begin with, the candidate", "length"),
        ]
        return kinds[int(self.rng.integers(len(kinds)))]

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]:
        self._spend(30 * len(chats), 1e-5)
        columns = [COLUMNS.get(choice, FAILED) for choice in choices]
        if columns[0] <= FAILED:
            distributions = self._outcomes(chats)[1][:, columns]
        else:
            items = [self._item(chat) for chat in chats]
            distributions = softmax(self.judge[self.level[items]][:, columns])
        logprobs: list[list[float]] = np.log(distributions).tolist()
        return logprobs

    # Hidden states and predictors

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> list[NDArray[np.float32]]:
        """One-hot level and skill, the same at every depth."""
        self._spend(30 * len(prompts), 1e-5)
        items = self._items(prompts)
        levels = np.eye(BINS, dtype=np.float32)[self.level[items]]
        skills = np.eye(self.simulation.skills, dtype=np.float32)[self.skill[items]]
        return list(np.tile(np.concatenate([levels, skills], axis=1), len(depths)))

    def predict(
        self, prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
    ) -> list[float]:
        self._spend(30 * (len(prompts) + len(evidence)), 1e-5)
        values: list[float] = self._predictions(self._items(prompts), model, evidence).tolist()
        return values

    def _predictions(
        self, items: NDArray[np.int64], model: Predictor, evidence: Evidence
    ) -> NDArray[np.float64]:
        if isinstance(model, ValueModel):
            return self._table(model)[self.skill[items], self.level[items]]
        basis = self._items([prompt for prompt, _ in evidence])
        values = np.array([value for _, value in evidence])
        distance = np.abs(self.level[items, None] - self.level[basis])
        kernel = np.exp(-distance) * np.where(self.skill[items, None] == self.skill[basis], 1, 0.2)
        kernel = np.where(items[:, None] == basis, 0.0, kernel)
        total = kernel.sum(axis=1)
        return np.where(total > 0, kernel @ values / np.where(total > 0, total, 1.0), 0.5)

    def fit(
        self,
        prompts: Sequence[Prompt],
        targets: Sequence[float],
        model: Predictor,
        evidence: Evidence = (),
    ) -> float:
        self._spend(60 * (len(prompts) + len(evidence)), 1e-5)
        items, goal = self._items(prompts), np.asarray(targets, dtype=np.float64)
        error = goal - self._predictions(items, model, evidence)
        if isinstance(model, ValueModel):
            table, cells = self._table(model), (self.skill[items], self.level[items])
            total, count = np.zeros_like(table), np.zeros_like(table)
            np.add.at(total, cells, error)
            np.add.at(count, cells, 1)
            table += (1 - 0.8**count) * total / np.maximum(count, 1)
        return float(np.mean(np.square(error))) if len(error) else 0.0

    def _table(self, model: ValueModel) -> NDArray[np.float64]:
        return self.values.setdefault(model, np.zeros((self.simulation.skills, BINS)))

    # Learning

    def update(self, batch: Batch) -> Mapping[str, float]:
        """One step on L_policy + L_judge: means over rollouts, and over judgments."""
        rollouts = sum(len(group.rewards) for group in batch.groups)
        gain = np.zeros_like(self.ability)
        for group in batch.groups:
            if len(group.rewards) > 1:
                item = self._items([group.prompt])[0]
                share = len(group.rewards) / rollouts
                gain[self.skill[item]] += self.simulation.slope * variance(group.rewards) * share
        others = gain.sum() - gain
        self.ability += self.simulation.rate * (gain + self.simulation.transfer * others)
        self.bound.note(float(np.linalg.norm(gain)))
        self.judge += self.simulation.judge_rate * self._judge_gradient(batch)
        trained = sum(len(t.tokens) for group in batch.groups for t in group.trajectories)
        self._spend(trained, 1e-5)
        self.version += 1
        return {"simulated/ability": float(self.ability.mean())}

    def _judge_gradient(self, batch: Batch) -> NDArray[np.float64]:
        """The mean gradient of the judgments, with the bound applied."""
        total = np.zeros_like(self.judge)
        scale = np.repeat(np.arange(len(SCALES)), [len(values) for values in SCALES])
        parts = np.split(self.judge, ENDS[:-1], axis=1)
        said = np.concatenate([softmax(part) for part in parts], axis=1)
        for judgment in batch.judgments:
            level, column = self._judged(judgment)
            gradient = np.where(scale == scale[column], -said[level], 0.0)
            gradient[column] += 1.0
            total[level] += judgment.weight * judgment.advantage * gradient
        mean: NDArray[np.float64] = total / max(1, len(rows_by_judgment(batch.judgments)))
        if not batch.gradient_share:
            return mean
        return mean * self.bound.scale(batch.gradient_share, float(np.linalg.norm(mean)))

    def _judged(self, judgment: Judgment) -> tuple[int, int]:
        """The judge's row and column of a judgment."""
        if isinstance(judgment.trajectory, Continuation):
            item = self._item(judgment.trajectory.chat)
            return int(self.level[item]), COLUMNS.get(judgment.trajectory.text, FAILED)
        item, outcome = (int(token) for token in judgment.trajectory.tokens)
        return int(self.level[item]), outcome

    # What the training loop needs beside the answers

    def clock(self) -> float:
        """Virtual seconds spent so far."""
        return self.seconds

    def _spend(self, tokens: int, seconds_each: float) -> None:
        self.processed += tokens
        self.seconds += seconds_each * tokens

    def reseed(self, seed: int) -> None:
        """Seed all sampling from here on."""
        self.rng = np.random.default_rng([seed, 1])

    def close(self) -> None:
        """Nothing to close."""

    def evaluate(
        self,
        count: Count = no_progress,
        first: FirstValidation | None = None,
        heard: Hear = unheard,
    ) -> list[tuple[str, float]]:
        """The pass rate of each held-out item, without sampling noise; nothing needs saving."""
        items = np.arange(self.simulation.prompts, len(self.difficulty))
        chances = self._success(items).tolist()
        return [(f"simulated:{item}", p) for item, p in zip(items, chances, strict=True)]

    def save(self, folder: Path) -> None:
        state.save_state(folder / "engine.state", self.state_dict())

    def load(self, folder: Path) -> None:
        self.load_state_dict(state.load_state(folder / "engine.state"))

    def state_dict(self) -> dict[str, Any]:
        return {
            "ability": self.ability.copy(),
            "judge": self.judge.copy(),
            "bound": self.bound.state_dict(),
            "values": [(model, table.copy()) for model, table in self.values.items()],
            "policy": self.version,
            "seconds": self.seconds,
            "processed": self.processed,
            "rng": self.rng.bit_generator.state,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.ability, self.judge, self.version = saved["ability"], saved["judge"], saved["policy"]
        self.seconds, self.processed = saved["seconds"], saved["processed"]
        self.bound.load_state_dict(saved["bound"])
        self.values = {model: table.copy() for model, table in saved["values"]}
        self.rng.bit_generator.state = saved["rng"]

    def _items(self, prompts: Sequence[Prompt] | Sequence[Chat]) -> NDArray[np.int64]:
        numbers = (x.id.split(":")[1] if isinstance(x, Prompt) else self._item(x) for x in prompts)
        return np.fromiter(map(int, numbers), dtype=np.int64)


def build_simulation(
    simulation: Simulation, seed: int = 0, data_seed: int | None = None
) -> tuple[SimulatedEngine, Pool]:
    """The engine and its training prompts; it has its own task."""
    engine = SimulatedEngine(simulation, seed, data_seed)
    return engine, Pool(engine.pool, rewards=simulation.rewards, seed=seed)
