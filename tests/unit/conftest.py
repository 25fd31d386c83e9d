"""Copies of published sets: small ones made here, or the real ones of the folder METIS_DATA."""

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

FILES = {
    "aime24": "aime24.jsonl",
    "aime25": "aime25.jsonl",
    "math500": "math500.jsonl",
    "minerva": "minerva_math.jsonl",
    "dapo": "dapo_math_17k.jsonl.gz",
    "math": "math_train.jsonl.gz",
}

HEXAGON = (
    "A regular hexagon with side length 7 is cut along three of its diagonals into six pieces; "
    "find the sum of the squares of the areas of the two largest pieces."
)

MADE = {
    "aime24": [{"id": "a", "problem": "How many primes are below 98?", "answer": "025"}],
    "aime25": [{"id": "b", "problem": " Find $17_{b}$ for all bases $b>9$.", "answer": 70}],
    "math500": [
        {"problem": HEXAGON, "answer": "\\frac{1}{2}", "subject": "Geometry", "level": 5},
        {"problem": "Expand $(x+5)^2$", "answer": "x^2", "subject": "Algebra", "level": 1},
    ],
    "minerva": [
        {
            "problem": "How bright is it?",
            "solution": "\\boxed{1} is wrong, $\\boxed{\\frac{4}{3}}$ right.",
            "type": "Introduction to Astronomy",
        }
    ],
    "dapo": [
        {"problem": "What is $2+2$?", "answer": "4"},
        {"problem": "求 $2+3$ 的值.", "answer": "5"},
        {"problem": "What is $2+2$?\n", "answer": "4"},
        {"problem": "What is $3-3$?", "answer": "0"},
        {"problem": "what is $3-3$", "answer": "0"},
        {"problem": "Which is it?", "answer": "1"},
        {"problem": "Which is it?", "answer": "2"},
        {"problem": f"{HEXAGON} Give the answer as $m+n$.", "answer": "3"},
        {"problem": "expand $\\left(x + 5\\right)^{2}$.", "answer": "11"},
    ],
    "math": [
        {"problem": "What is $x$?", "solution": "$\\boxed{5}$", "level": "Level 3", "type": "A"},
        {"problem": "And $y$?", "solution": "$\\boxed{}$", "level": "Level ?", "type": "B"},
        {
            "problem": "And $z$?",
            "solution": "$\\boxed{1\\text{ m}}$",
            "level": "Level ?",
            "type": "B",
        },
    ],
}


@dataclass(frozen=True)
class Published:
    """Files by set, and what must come of them: rows, problems, and the reasons to drop."""

    files: dict[str, Path]
    counts: dict[str, tuple[int, int, int, int, int]]
    """rows, problems, without an answer, with several answers, in a set to test with"""

    def words(self, *names: str) -> list[str]:
        return [f"{name}={self.files[name]}" for name in names or self.files]

    def raw(self, name: str) -> list[dict]:
        path = self.files[name]
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    pytest.importorskip("pyarrow")
    if folder := os.environ.get("METIS_DATA"):
        counts = {
            "aime24": (30, 30, 0, 0, 0),
            "aime25": (30, 30, 0, 0, 0),
            "math500": (500, 500, 0, 0, 0),
            "minerva": (272, 272, 0, 0, 0),
            "dapo": (17917, 17255, 0, 12, 37),
            "math": (7500, 7500, 2, 0, 48),
        }
        return Published({name: Path(folder) / file for name, file in FILES.items()}, counts)
    made = tmp_path_factory.mktemp("published")
    for name, rows in MADE.items():
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path = made / FILES[name]
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    counts = {
        "aime24": (1, 1, 0, 0, 0),
        "aime25": (1, 1, 0, 0, 0),
        "math500": (2, 2, 0, 0, 0),
        "minerva": (1, 1, 0, 0, 0),
        "dapo": (9, 7, 0, 1, 2),
        "math": (3, 3, 1, 0, 0),
    }
    return Published({name: made / file for name, file in FILES.items()}, counts)
