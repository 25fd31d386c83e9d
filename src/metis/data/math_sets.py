"""The published sets of mathematical reasoning: where they are, at which revision, how large."""

from dataclasses import dataclass
from typing import Literal

from metis.data.sources import Hub

SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)


@dataclass(frozen=True)
class PublishedSet:
    """A published set; `size` is the number of its different problems."""

    split: Literal["train", "test"]
    size: int
    hub: Hub


SETS = {
    "aime24": PublishedSet(
        "test",
        30,
        Hub(
            "HuggingFaceH4/aime_2024",
            "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
            ("data/train-00000-of-00001.parquet",),
        ),
    ),
    "aime25": PublishedSet(
        "test",
        30,
        Hub("math-ai/aime25", "563bb8404243c5f09de6ec262f2db674fe5bce9b", ("test.jsonl",)),
    ),
    "math500": PublishedSet(
        "test",
        500,
        Hub("HuggingFaceH4/MATH-500", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", ("test.jsonl",)),
    ),
    "minerva": PublishedSet(
        "test",
        272,
        Hub("math-ai/minervamath", "ee46ddc498933b1977577953250ca5c66be64f96", ("test.jsonl",)),
    ),
    "dapo": PublishedSet(
        "train",
        17_255,
        Hub(
            "BytedTsinghua-SIA/DAPO-Math-17k",
            "65877096c24ffa7abc4e4fa5edb95cf3413a5674",
            ("data/dapo-math-17k.parquet",),
        ),
    ),
    "math": PublishedSet(
        "train",
        7_500,
        Hub(
            "EleutherAI/hendrycks_math",
            "21a5633873b6a120296cce3e2df9d5550074f4a3",
            tuple(f"{subject}/train-00000-of-00001.parquet" for subject in SUBJECTS),
        ),
    ),
}
"""By name, those to test with first: the others are compared with them."""
