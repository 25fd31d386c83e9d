"""Judges trained on recorded outcomes, and measured on prompts they have not seen.

    python benchmarks/judge_offline.py SET.jsonl.gz ... --out RESULTS.jsonl [--data data/math]
        [--rows probe "log score"] [--labels 256 512 1024] [--splits 0 1 2 3 4] [--minutes 60]
        [--states STATES.npz] [--table]

Sets are outcome sets (`metis survey --keep`); `--data` is the folder of the prepared files they are
of. In each split a judge is trained, by the curriculum's own code and the local engine, on the
first labels of a random order of all prompts, and predicts the variance of those after the last
label: rank correlation, lift of the best eighth, calibration, mean reward of what it would choose.
A part is one judge in one split. Its results are appended when it is done, and it is not run again;
`--minutes` begins no further part after that time. `--states` keeps the states of the untrained
model in a file, so that each is read once. `--table` prints what is there.
"""

import argparse
import gc
import json
import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from offline_rows import LEARNED, LEVEL, MEAN, ROWS
from offline_table import table
from recorded_rollouts import RecordedRollouts
from remembered import Remembered

from metis import Pool, Progress, Prompt, drive
from metis.core import Chat, Embed
from metis.core.pool import Rewards
from metis.core.requests import Reply, Request
from metis.curricula.judges.skill import lift, spearman
from metis.engines import model_files
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.errors import MetisError, require
from metis.evals.subject import identity
from metis.settings.sections import curriculum_of, task_of
from metis.signal import INFORMATIVE, top_b
from metis.surveys.facts import PromptOutcome
from metis.surveys.outcome_set import SUFFIX, OutcomeSet

EIGHTH = 1 / 8
ALL = "all"


class Sets:
    """Several outcome sets with their prompts: a task whose rollouts are recorded."""

    rewards: Rewards = "binary"

    def __init__(self, paths: Sequence[Path], data: Path | None) -> None:
        self.prompts: list[Prompt] = []
        self.outcomes: dict[str, PromptOutcome] = {}
        self.set_of: dict[str, str] = {}
        self.tasks: dict[str, Any] = {}
        for path in paths:
            name, outcome_set = path.name.removesuffix(SUFFIX), OutcomeSet.read(path)
            self.settings = outcome_set.settings
            self.tasks[name] = task = task_of(_relocated(outcome_set.settings, data))
            for prompt, outcome in outcome_set.joined(task.training()):
                if outcome.variance is not None:
                    self.prompts.append(prompt)
                    self.outcomes[prompt.id], self.set_of[prompt.id] = outcome, name

    def training(self) -> Sequence[Prompt]:
        return self.prompts

    def heldout(self) -> Sequence[Prompt]:
        return []

    def episode(self, prompt: Prompt) -> Any:
        return self.tasks[self.set_of[prompt.id]].episode(prompt)

    def chat(self, prompt: Prompt) -> Chat:
        chat: Chat = self.episode(prompt).chat
        return chat

    def variance(self, prompt: Prompt) -> float:
        variance = self.outcomes[prompt.id].variance
        assert variance is not None
        return variance


def _relocated(settings: Any, data: Path | None) -> dict[str, Any]:
    task = dict(settings["task"])
    if data is not None and "path" in task:
        task["path"] = str(data / Path(task["path"]).name)
    return {**settings, "task": task, "benchmarks": ()}


class InOrder(Pool):
    """All prompts, of which steps draw the next of these."""

    def __init__(self, prompts: Iterable[Prompt], order: Sequence[Prompt]) -> None:
        super().__init__(prompts)
        self.waiting = list(order)

    def sample(self, count: int, **_: Any) -> list[Prompt]:
        drawn, self.waiting = self.waiting[:count], self.waiting[count:]
        return drawn


class Model:
    """The model of a part; one that nothing was trained on serves the next part too."""

    def __init__(self, sets: Sets, settings: LocalSettings, states: Path | None) -> None:
        self.sets = sets
        self.settings = replace(settings, model=settings.model or sets.settings["engine"]["model"])
        self.engine: LocalEngine | None = None
        about = identity(model_files.model(self.settings.model)) if states else ""
        self.states = Remembered(self.fresh, sets.chat, about, states)

    def fresh(self) -> LocalEngine:
        if self.engine is None or self.engine.version:
            self.close()
            self.engine = LocalEngine(self.settings, self.sets, seed=0)
        return self.engine

    def close(self) -> None:
        """Let go of the memory of a trained model before the next is loaded."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None
            gc.collect()


class Offline(RecordedRollouts):
    """Recorded outcomes, and the states in a file as long as nothing trained the model."""

    def __init__(self, model: Model) -> None:
        self.local = model.fresh()
        super().__init__(self.local, model.sets.outcomes.values())
        self.states = model.states

    def answer(self, request: Request[Reply]) -> Reply:
        kept = self.states.path is not None and self.local.version == 0
        read = kept and isinstance(request, Embed)
        return self.states.answer(request) if read else super().answer(request)


def part(
    row: str, split: int, sets: Sets, model: Model, chosen: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """The results of one judge in one split."""
    order = random.Random(f"split {split}").sample(sets.prompts, len(sets.prompts))
    most = max(chosen.labels)
    trained, rest = order[:most], order[most:]
    if row in LEARNED:
        predicted = learned(row, split, model, trained, rest, chosen)
    else:
        predicted = ((count, plain(row, sets, trained[:count], rest)) for count in chosen.labels)
    for count, predictions in predicted:
        for name in [*sets.tasks, *([ALL] if len(sets.tasks) > 1 else [])]:
            mine = [p for p in rest if name in (ALL, sets.set_of[p.id]) and p.id in predictions]
            scores = [predictions[p.id] for p in mine]
            measures = measured(scores, mine, sets)
            yield {"row": row, "split": split, "labels": count, "set": name, **measures}


def learned(
    row: str,
    split: int,
    model: Model,
    trained: Sequence[Prompt],
    rest: Sequence[Prompt],
    chosen: argparse.Namespace,
) -> Iterator[tuple[int, dict[str, float]]]:
    """Predictions for the rest after each number of labels."""
    sets, engine, group = model.sets, Offline(model), model.sets.settings["group"]
    curriculum = curriculum_of(LEARNED[row], chosen.batch, group)
    pool = InOrder(sets.prompts, trained)
    steps = {math.ceil(count / chosen.batch): count for count in chosen.labels}
    for step in range(max(steps)):
        progress = Progress(step, policy=engine.local.version, seed=split)
        batch = drive(curriculum.step(pool, progress), engine)
        if batch.judgments:
            engine.update(batch)
        if (count := steps.get(step + 1)) is not None:
            section = {**LEARNED[row], "multiplier": math.ceil(len(rest) / chosen.batch)}
            judge = curriculum_of(section, chosen.batch, group)
            judge.load_state_dict(curriculum.state_dict())
            asked = replace(progress, step=step + 1, policy=engine.local.version)
            decisions = drive(judge.step(InOrder(sets.prompts, rest), asked), engine).decisions
            scores = {each.prompt.id: each.score for each in decisions if each.score is not None}
            lowest = min(scores.values(), default=0.0)
            yield count, {each.prompt.id: scores.get(each.prompt.id, lowest) for each in decisions}


def plain(
    row: str, sets: Sets, trained: Sequence[Prompt], rest: Sequence[Prompt]
) -> dict[str, float]:
    """The mean of all labels, or of those of the same level in the same set, for every prompt."""

    def level(prompt: Prompt) -> Any:
        given = prompt.category if prompt.difficulty is None else prompt.difficulty
        return (sets.set_of[prompt.id], given) if row == LEVEL else MEAN

    by_level: dict[Any, list[float]] = {}
    for prompt in trained:
        by_level.setdefault(level(prompt), []).append(sets.variance(prompt))
    means = {key: float(np.mean(values)) for key, values in by_level.items()}
    overall = float(np.mean([sets.variance(prompt) for prompt in trained]))
    return {prompt.id: means.get(level(prompt), overall) for prompt in rest}


def measured(scores: Sequence[float], prompts: Sequence[Prompt], sets: Sets) -> dict[str, Any]:
    """The quality of predictions, and what the best eighth of them is."""
    outcomes = [sets.variance(prompt) for prompt in prompts]
    best = top_b(scores, max(1, round(EIGHTH * len(scores))), random.Random(0))
    rewards = [float(np.mean(sets.outcomes[prompts[i].id].rewards)) for i in best]
    return {
        "prompts": len(prompts),
        "spearman": spearman(scores, outcomes),
        "lift": lift(scores, outcomes, EIGHTH),
        "calibration": calibration_error(scores, outcomes),
        "reward": float(np.mean(rewards)),
        "informative": float(np.mean([outcomes[i] > INFORMATIVE for i in best])),
    }


def calibration_error(v_hat: Sequence[float], v: Sequence[float], bins: int = 10) -> float | None:
    """Expected calibration error, over bins of as many predictions each.

    Equal predictions are not kept together: they are cut in the order given.
    """
    if not v:
        return None
    predictions, outcomes = np.asarray(v_hat, dtype=np.float64), np.asarray(v, dtype=np.float64)
    order = np.argsort(predictions, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    gaps = [abs(predictions[part].mean() - outcomes[part].mean()) * len(part) for part in parts]
    return float(sum(gaps) / len(order))


def heading(sets: Sets, chosen: argparse.Namespace) -> dict[str, Any]:
    """The settings that all results of a file share."""
    return {
        "sets": {name: list(sets.set_of.values()).count(name) for name in sets.tasks},
        "model": Path(chosen.model or sets.settings["engine"]["model"]).name,
        "labels": chosen.labels,
        "batch": chosen.batch,
        "learning_rate": chosen.learning_rate,
    }


def results(out: Path, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Parts that are done; another comparison's file is refused, and a torn line cut off."""
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(about) + "\n")
        return []
    whole = [line for line in out.read_text().splitlines(keepends=True) if line.endswith("\n")]
    first, *rows = map(json.loads, whole)
    if first != about:
        raise MetisError(f"--out {str(out)!r} is of {first}, not of {about}: name another file")
    out.write_text("".join(whole))
    return rows


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    option = parser.add_argument
    option("sets", nargs="+", type=Path, metavar="SET.jsonl.gz")
    option("--out", type=Path, required=True, metavar="RESULTS.jsonl")
    option("--data", type=Path, help="folder of the prepared files")
    option("--model", default="", help="by default the one that the sets are of")
    option("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    option("--labels", nargs="+", type=int, default=[256, 512, 1024])
    option("--splits", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    option("--batch", type=int, default=32, help="labels of a step")
    option("--learning-rate", type=float, default=1e-5)
    option("--tokens", type=int, default=16384, help="padded tokens in one pass")
    option("--device", default="auto")
    option("--states", type=Path, metavar="STATES.npz", help="file of states that were read")
    option("--minutes", type=float, default=math.inf, help="begin no part after this time")
    option("--table", action="store_true", help="print the table of what is there alone")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    chosen, begun = arguments(words), time.monotonic()
    sets = Sets(chosen.sets, chosen.data)
    most = len(sets.prompts) - 16
    require(max(chosen.labels) <= most, "--labels", chosen.labels, f"at most {most} leave a rest")
    about = heading(sets, chosen)
    rows = results(chosen.out, about)
    done = {(row["row"], row["split"]) for row in rows}
    rate = chosen.learning_rate
    local = LocalSettings(
        chosen.model, device=chosen.device, learning_rate=rate, tokens=chosen.tokens
    )
    model = Model(sets, local, chosen.states)
    parts = [(row, split) for split in chosen.splits for row in chosen.rows]
    for row, split in () if chosen.table else parts:
        if (row, split) in done or time.monotonic() - begun > 60 * chosen.minutes:
            continue
        started = time.monotonic()
        measures = list(part(row, split, sets, model, chosen))
        with chosen.out.open("a") as file:
            file.write("".join(f"{json.dumps(each)}\n" for each in measures))
        model.states.keep()
        rows += measures
        print(f"{row}, split {split}: {time.monotonic() - started:.0f} s", flush=True)
    model.close()
    print(table(rows, about))


if __name__ == "__main__":
    main()
