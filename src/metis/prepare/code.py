"""Programming: problems to train on, and benchmarks to test with, as parquet for verl.

The paper ("Dataset Pre-processing") trains on CodeContests+ after three filters, and tests on
LiveCodeBench v6, HumanEval, MBPP and BigCodeBench. Rows are read, filtered and written one after
the other, since their tests are gigabytes.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from metis.data import parquet, table
from metis.data.sources import Hub, LocalSource, parse
from metis.data.verl_rows import verl_row
from metis.errors import MetisError, require_folder
from metis.files import atomic
from metis.prepare import made
from metis.tasks.code import records
from metis.tasks.code.problem import Problem
from metis.tasks.code.published import bigcodebench, codecontests, humaneval, livecodebench, mbpp

FORMAT = 1
GROUP = 8
"""Problems in memory at a time, and read together later."""
IDENTITY = ("source", "id", "title", "task_id", "question_id")
"""Fields that tell which row was dropped."""
REPEATED, UNREADABLE = "repeats another", "cannot be read"


Row = Mapping[str, Any]


def _keep(row: Row) -> str:
    return ""


@dataclass(frozen=True)
class PublishedCode:
    """A published set.

    size     how many problems are written of it: of a benchmark all, of CodeContests+ the paper's
    problem  reads a row
    refusal  the reason to drop a row; empty keeps it
    columns  the columns that are read of a parquet file; none are all
    """

    split: Literal["train", "test"]
    size: int
    licence: str
    hub: Hub
    problem: Callable[[Row], Problem]
    refusal: Callable[[Row], str] = _keep
    columns: tuple[str, ...] = ()


SETS = {
    "codecontests": PublishedCode(
        "train",
        4_432,
        "CC-BY-4.0",
        Hub(
            "ByteDance-Seed/Code-Contests-Plus",
            "7fe2c1821a7e36765e3308841658b0531ca281cf",
            tuple(f"ccplus_1x/part-{part:05}-of-00020.parquet" for part in range(20)),
        ),
        codecontests.problem,
        codecontests.refusal,
        codecontests.COLUMNS,
    ),
    "livecodebench": PublishedCode(
        "test",
        1_055,
        "CC (problems of LeetCode, AtCoder and Codeforces)",
        Hub(
            "livecodebench/code_generation_lite",
            "0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
            ("test.jsonl", *(f"test{part}.jsonl" for part in range(2, 7))),
        ),
        livecodebench.problem,
    ),
    "humaneval": PublishedCode(
        "test",
        164,
        "MIT",
        Hub(
            "openai/openai_humaneval",
            "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
            ("openai_humaneval/test-00000-of-00001.parquet",),
        ),
        humaneval.problem,
    ),
    "mbpp": PublishedCode(
        "test",
        974,
        "CC-BY-4.0",
        Hub(
            "google-research-datasets/mbpp",
            "4bb6404fdc6cacfda99d4ac4205087b89d32030c",
            tuple(
                f"full/{split}-00000-of-00001.parquet"
                for split in ("prompt", "test", "validation", "train")
            ),
        ),
        mbpp.problem,
    ),
    "bigcodebench": PublishedCode(
        "test",
        1_140,
        "Apache-2.0",
        Hub(
            "bigcode/bigcodebench",
            "b74c0d0bf70d2c0bc459be537895cca163007f1a",
            ("data/v0.1.4-00000-of-00001.parquet",),
        ),
        bigcodebench.problem,
    ),
}
"""By name, the one to train on first."""


@dataclass
class PreparedProblems:
    """The outcome for a set: its rows were written, or dropped for a reason."""

    name: str
    source: str
    licence: str
    path: str
    rows: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    written: int = 0
    fresh: bool = True

    @property
    def notes(self) -> Iterator[str]:
        """Remarks beside the counts."""
        yield f"licence: {self.licence}"
        expected = SETS[self.name].size
        if self.written != expected:
            yield f"{self.written:,} problems written; the paper has {expected:,}"


def understand(words: Sequence[str]) -> dict[str, LocalSource | Hub]:
    """The sources of the sets asked for; none named: all."""
    sources: dict[str, LocalSource | Hub] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in SETS:
            raise MetisError(f"{word!r}: the sets are {', '.join(SETS)}; a source is SET=PATH")
        sources[key] = parse(value, key, SETS[key].hub) if equals else SETS[key].hub
    return sources or {name: known.hub for name, known in SETS.items()}


def prepare(
    sources: Mapping[str, LocalSource | Hub], out: Path, say: Callable[[str], None] = print
) -> list[PreparedProblems]:
    """Write the named sets into a folder; what is there already, and the same, is left alone."""
    parquet.arrow()
    require_folder(out)
    return [_prepare(name, sources[name], out, say) for name in SETS if name in sources]


def _prepare(
    name: str, source: LocalSource | Hub, out: Path, say: Callable[[str], None]
) -> PreparedProblems:
    path, published = out / f"{name}.parquet", SETS[name]
    request = {"format": FORMAT, "source": source.fingerprint}
    if (before := made.before(path, request)) is not None:
        return PreparedProblems(**{**before, "path": str(path), "fresh": False})
    say(f"{name}: reading {source}")
    outcome = PreparedProblems(name, str(source), published.licence, str(path))
    out.mkdir(parents=True, exist_ok=True)
    with atomic(out / f"{name}.dropped.jsonl") as dropped:

        def drop(row: Mapping[str, Any], reason: str) -> None:
            outcome.dropped[reason] = outcome.dropped.get(reason, 0) + 1
            about = {"reason": reason, **{key: row[key] for key in IDENTITY if key in row}}
            dropped.write(json.dumps(about, ensure_ascii=False).encode() + b"\n")

        rows = _rows(published, source.fetch(name), outcome, drop)
        about = {"request": request}
        parquet.stream(path, rows, lambda: {**about, "outcome": asdict(outcome)}, GROUP)
    if not outcome.dropped:
        (out / f"{name}.dropped.jsonl").unlink()
    return outcome


def _rows(
    published: PublishedCode,
    files: Sequence[Path],
    outcome: PreparedProblems,
    drop: Callable[[Mapping[str, Any], str], None],
) -> Iterator[dict[str, Any]]:
    """The rows to write; counted in the outcome."""
    seen: set[str] = set()
    for path in files:
        for row in table.rows(path, published.columns, GROUP):
            outcome.rows += 1
            try:
                reason = published.refusal(row)
                problem = None if reason else published.problem(row)
            except KeyError as error:
                raise MetisError(
                    f"{str(path)!r}, row {outcome.rows}: no field {error}, only {', '.join(row)}; "
                    "another file, or another revision of it?"
                ) from None
            except (TypeError, ValueError, SyntaxError):
                reason, problem = UNREADABLE, None
            if problem is not None and published.split == "train" and problem.statement in seen:
                reason, problem = REPEATED, None
            if problem is None:
                drop(row, reason)
                continue
            seen.add(problem.statement)
            outcome.written += 1
            yield _row(outcome, problem, published.split)


def _row(outcome: PreparedProblems, problem: Problem, split: str) -> dict[str, Any]:
    return verl_row(
        problem.prompt,
        problem.chat(),
        outcome.written - 1,
        source=f"metis/{outcome.name}",
        ability="CODE",
        split=split,
        ground_truth=records.written(problem),
    )


def lines(outcomes: Sequence[PreparedProblems]) -> Iterator[str]:
    """The counts of a preparation, and what should be known of each set."""
    for outcome in outcomes:
        state = "" if outcome.fresh else f" (already there, from {outcome.source})"
        yield f"{outcome.name}: {outcome.rows:,} rows, {outcome.written:,} problems{state}"
        for reason, count in outcome.dropped.items():
            yield f"  {count:7,}  {reason}"
        yield f"  {outcome.written:7,}  written to {outcome.path}"
        for note in outcome.notes:
            yield f"  {note}"
