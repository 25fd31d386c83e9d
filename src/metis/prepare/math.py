"""Mathematical reasoning: problems to train on, and benchmarks to test with, as parquet for verl.

The paper ("Dataset Pre-processing") trains on DAPO-Math-17k as it is, and in a case study on MATH.
It tests on AIME 2024 and 2025, MATH-500 and Minerva Math, with one instruction for all of them:
think step by step, put the answer into a box. Where a copy has solutions only, the answer is the
content of the last box.
"""

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from metis.core import Prompt
from metis.data import contamination, parquet, problems, table
from metis.data.math_sets import SETS
from metis.data.problems import Collection, RawProblem
from metis.data.sources import Hub, LocalSource, parse
from metis.data.verl_rows import verl_row
from metis.errors import MetisError, require, require_folder
from metis.files import atomic
from metis.prepare import made
from metis.tasks.math import INSTRUCTION, wrap

FORMAT = 2

Evaluation = Mapping[str, Mapping[str, str]]
"""The problems of the sets to test with: texts by id by set."""
HEADER = ("set", "rows", "problems", "no answer", "conflicting", "in a test set", "written", "file")


@dataclass(frozen=True)
class MathSettings:
    """Settings of the preparation. All but the last are for the sets to train on.

    duplicates     rows are one problem when they have the same `text`, or the same `wording`
    conflicts      `drop` problems that have several answers, or keep the `first` answer
    contamination  `drop` problems that are in a set to test with, or `keep` them
    instruction    what follows a problem in its prompt
    """

    duplicates: str = "text"
    conflicts: str = "drop"
    contamination: str = "drop"
    instruction: str = INSTRUCTION

    def __post_init__(self) -> None:
        choices = {
            "duplicates": tuple(problems.KEYS),
            "conflicts": ("drop", "first"),
            "contamination": ("drop", "keep"),
        }
        for key, options in choices.items():
            value = getattr(self, key)
            require(value in options, key, value, f"use {' or '.join(options)}")

    def of(self, split: str) -> "MathSettings":
        """A benchmark keeps all of its problems, whatever is done to training sets."""
        if split == "train":
            return self
        return MathSettings("text", "first", "keep", self.instruction)


PRESETS: dict[str, dict[str, str]] = {
    "recommended": {},
    "paper": {"conflicts": "first", "contamination": "keep"},
}


@dataclass
class PreparedSet:
    """The outcome for a set: its problems were written, or dropped for one of three reasons."""

    name: str
    source: str
    path: str
    rows: int
    problems: int
    conflicting: int = 0
    unanswered: int = 0
    contaminated: dict[str, int] = field(default_factory=dict)
    written: int = 0
    notes: list[str] = field(default_factory=list)
    fresh: bool = True


def prepare(
    sources: Mapping[str, LocalSource | Hub],
    settings: MathSettings,
    out: Path,
    say: Callable[[str], None] = print,
) -> list[PreparedSet]:
    """Write the named sets into a folder; what is there already, and the same, is left alone."""
    parquet.arrow()
    require_folder(out)
    return [
        _prepare(name, sources[name], settings.of(SETS[name].split), out, say)
        for name in SETS
        if name in sources
    ]


def _prepare(
    name: str,
    source: LocalSource | Hub,
    settings: MathSettings,
    out: Path,
    say: Callable[[str], None],
) -> PreparedSet:
    evaluation = _evaluation(out) if settings.contamination == "drop" else {}
    path = out / f"{name}.parquet"
    request = {
        "format": FORMAT,
        "source": source.fingerprint,
        "settings": asdict(settings),
        "evaluation": {key: _digest(texts) for key, texts in evaluation.items()},
    }
    if (before := made.before(path, request)) is not None:
        return PreparedSet(**{**before, "path": str(path), "fresh": False})
    say(f"{name}: reading {source}")
    collection = problems.read(source.fetch(name), settings.duplicates)
    outcome = PreparedSet(name, str(source), str(path), collection.rows, len(collection.problems))
    kept, dropped = _select(collection.problems, outcome, settings, evaluation)
    outcome.notes = list(_notes(outcome, collection, settings, evaluation))
    out.mkdir(parents=True, exist_ok=True)
    _write_dropped(out / f"{name}.dropped.jsonl", dropped)
    rows = [_row(name, index, problem, settings) for index, problem in enumerate(kept)]
    parquet.write(path, rows, {"request": request, "outcome": asdict(outcome)})
    return outcome


def _evaluation(out: Path) -> Evaluation:
    """The sets to test with that were prepared into this folder."""
    paths = {name: out / f"{name}.parquet" for name, entry in SETS.items() if entry.split == "test"}
    columns = ("extra_info.id", "extra_info.problem")
    return {
        name: dict(table.values(path, columns))
        for name, path in paths.items()
        if path.is_file() and parquet.about(path) is not None
    }


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def _select(
    candidates: Sequence[RawProblem],
    outcome: PreparedSet,
    settings: MathSettings,
    evaluation: Evaluation,
) -> tuple[list[RawProblem], list[dict[str, Any]]]:
    """The problems to write, and those to drop with the reason; counted in the outcome."""
    texts = {identity: text for part in evaluation.values() for identity, text in part.items()}
    repeated = contamination.find([problem.text for problem in candidates], texts)
    belongs = {identity: name for name, part in evaluation.items() for identity in part}
    kept, dropped = [], []
    contaminated: Counter[str] = Counter()
    for index, problem in enumerate(candidates):
        row = {"id": identity_of(outcome.name, problem.text), **asdict(problem)}
        if not problem.answers:
            outcome.unanswered += 1
            dropped.append({"reason": "no answer", **row})
        elif len(problem.answers) > 1 and settings.conflicts == "drop":
            outcome.conflicting += 1
            dropped.append({"reason": "several answers", **row})
        elif index in repeated:
            match = repeated[index]
            contaminated[belongs[match.evaluation]] += 1
            dropped.append({"reason": f"{match.share:.0%} of {match.evaluation}", **row})
        else:
            kept.append(problem)
    outcome.contaminated, outcome.written = dict(contaminated), len(kept)
    return kept, dropped


def _notes(
    outcome: PreparedSet, collection: Collection, settings: MathSettings, evaluation: Evaluation
) -> Iterable[str]:
    """Remarks on a set beside its counts."""
    published = SETS[outcome.name]
    if outcome.problems < published.size:
        yield f"{outcome.problems:,} problems; the published set has {published.size:,}"
    if collection.unwrapped is not None and collection.unwrapped < collection.rows:
        bare = collection.rows - collection.unwrapped
        yield f"{bare:,} prompts have no wrapper that is known here; they are taken as they are"
    several = sum(len(problem.answers) > 1 for problem in collection.problems)
    if several and settings.conflicts == "first":
        yield f"{several:,} problems have several answers; the first one counts"
    if settings.contamination == "drop":
        missing = [name for name, s in SETS.items() if s.split == "test" and name not in evaluation]
        if evaluation:
            counts = (f"{name} {outcome.contaminated.get(name, 0)}" for name in evaluation)
            yield f"problems dropped that are in a set to test with: {', '.join(counts)}"
        if missing:
            yield f"not compared with {', '.join(missing)}, which are not prepared in this folder"


def identity_of(name: str, text: str) -> str:
    """The id of a problem: the same in every copy and order of a set."""
    return f"{name}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _row(name: str, index: int, problem: RawProblem, settings: MathSettings) -> dict[str, Any]:
    identity = identity_of(name, problem.text)
    return verl_row(
        Prompt(identity, problem.text, problem.category, problem.difficulty),
        wrap(problem.text, settings.instruction),
        index,
        source=f"metis/{name}",
        ability="MATH",
        split=SETS[name].split,
        ground_truth=problem.answers[0],
    )


def _write_dropped(path: Path, dropped: Sequence[dict[str, Any]]) -> None:
    if not dropped:
        path.unlink(missing_ok=True)
        return
    with atomic(path) as file:
        for row in dropped:
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


KNOBS = (*(knob.name for knob in fields(MathSettings)), "preset")


def understand(words: Sequence[str]) -> tuple[dict[str, LocalSource | Hub], MathSettings]:
    """The sources of the sets asked for (none named: all), and the settings."""
    sources: dict[str, LocalSource | Hub] = {}
    knobs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key in SETS:
            usual = SETS[key].hub
            sources[key] = parse(value, key, usual) if equals else usual
        elif key in KNOBS and equals:
            knobs[key] = value
        else:
            raise MetisError(f"{word!r}: {_remedy(key, equals)}")
    return sources or {name: entry.hub for name, entry in SETS.items()}, _settings(knobs)


def _settings(knobs: Mapping[str, str]) -> MathSettings:
    preset = knobs.get("preset", "recommended")
    require(preset in PRESETS, "preset", preset, f"use {' or '.join(PRESETS)}")
    own = {key: value for key, value in knobs.items() if key != "preset"}
    return MathSettings(**{**PRESETS[preset], **own})


def _remedy(key: str, equals: str) -> str:
    if key in KNOBS:
        return f"a setting needs a value: {key}=VALUE"
    near = difflib.get_close_matches(key, [*SETS, *KNOBS] if equals else list(SETS), n=1)
    listing = f"the sets are {', '.join(SETS)}; the settings {', '.join(KNOBS)}"
    return f"did you mean {near[0]!r}?" if near else listing


def lines(outcomes: Sequence[PreparedSet]) -> Iterator[str]:
    """The table, and under it what should be known of each set."""
    rows = [HEADER, *(_counts(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row in rows:
        first, *numbers, last = (
            text.ljust(width) if column in (0, len(HEADER) - 1) else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *numbers, last]).rstrip()
    for outcome in outcomes:
        for note in outcome.notes:
            yield f"{outcome.name}: {note}"
        if outcome.written < outcome.problems:
            dropped = outcome.path.removesuffix(".parquet") + ".dropped.jsonl"
            yield f"{outcome.name}: what was dropped, and why: {dropped}"


def _counts(outcome: PreparedSet) -> tuple[str, ...]:
    numbers = (
        outcome.rows,
        outcome.problems,
        outcome.unanswered,
        outcome.conflicting,
        sum(outcome.contaminated.values()),
        outcome.written,
    )
    state = "" if outcome.fresh else f" (already there, from {outcome.source})"
    return (outcome.name, *(f"{number:,}" for number in numbers), f"{outcome.path}{state}")
