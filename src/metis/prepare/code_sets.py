"""The published sets of programming: where they are, at which revision, under which licence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from metis.data.sources import Hub
from metis.tasks.code.problem import Problem
from metis.tasks.code.published import bigcodebench, codecontests, humaneval, livecodebench, mbpp

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
