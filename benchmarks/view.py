"""Seconds until `metis view` has a page of answers, on a run of 100,000 rollouts.

    python benchmarks/view.py [ROLLOUTS]

A run is made up: 16 groups of 8 rollouts a step, each of about 700 tokens, and 128 candidates of
which 112 are passed over. Its index is built once; then each page is asked for five times, as the
browser does, and the slowest is printed, in seconds of the processor: other work on the machine
does not count. The target is 0.3 s.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metis.run.transcripts import FOLDER, file_name, packed
from metis.view.browse.opened import Opened, open_folders
from metis.view.browse.routes import Routes

ROLLOUTS, GROUP, BATCH, CANDIDATES = 100_000, 8, 16, 128
WORDS, SENTENCES, LINES = 20_000, 5_000, 50
"""Words there are, sentences that are made of them, and sentences of an answer: 3.5 kB."""


def word(rank: int) -> str:
    """A word of letters alone: the more frequent, the shorter."""
    syllables = ""
    while rank:
        rank, place = divmod(rank, 100)
        syllables += "bcdfghklmnprstvwxyzj"[place % 20] + "aeiou"[place // 20]
    return syllables


QUERIES = {
    "all answers": "0/answers",
    "a page far on": "0/answers?page=100",
    "a frequent word": f"0/answers?q={word(1)}",
    "two frequent words": f"0/answers?q={word(1)}+{word(2)}&reward=right",
    "a rare word": f"0/answers?q={word(WORDS)}",
    "the start of a word": f"0/answers?q={word(101)}",
    "a phrase": f"0/answers?q=%22{word(3)}+{word(5)}%22",
    "signs": "0/answers?q=%5Cboxed%7B7%7D&outcome=informative",
    "a phrase that is nowhere": "0/answers?q=%22" + "+".join(map(word, range(1, 6))) + "%22",
    "a category, by length": "0/answers?category=level+3&reward=wrong&sort=-tokens",
    "a reason and a word": f"0/answers?reason=explore&q={word(7)}",
    "prompts": "0/prompts",
    "prompts with a word": "0/prompts?q=number+77&sort=-score",
    "a step": "0/steps/50",
    "the overview": "0/overview",
}


def make(folder: Path, rollouts: int = ROLLOUTS) -> None:
    """Write the folder of a run with so many rollouts."""
    draw, steps = random.Random(0), max(1, rollouts // (GROUP * BATCH))
    ranks = range(1, WORDS + 1)
    weights = [1 / rank for rank in ranks]
    sentences = [
        " ".join(word(rank) for rank in draw.choices(ranks, weights, k=14)) + "."
        for _ in range(SENTENCES)
    ]
    (folder / FOLDER).mkdir(parents=True)
    settings = {"steps": steps, "seed": 0, "curriculum": {"name": "metis"}}
    (folder / "config.json").write_text(json.dumps(settings))
    logs = ("metrics", "prompts", "judgments", "rollouts")
    files = {log: (folder / f"{log}.jsonl").open("w") for log in logs}
    for step in range(1, steps + 1):
        row = {"step": step, "batch/groups": BATCH, "batch/informative": draw.random()}
        files["metrics"].write(f"{json.dumps(row)}\n")
        with (folder / FOLDER / file_name("train", step)).open("ab") as transcript:
            for place in range(CANDIDATES):
                for log, found in _candidate(step, place, draw):
                    files[log].write(f"{json.dumps(found)}\n")
                if place < BATCH:
                    head, rows = _group(step, place, draw, sentences)
                    transcript.write(packed(head, rows))
                    files["rollouts"].write(f"{json.dumps(_earned(head, rows))}\n")
    for file in files.values():
        file.close()


def _candidate(step: int, place: int, draw: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    about = {"step": step, "prompt": _name(step, place)}
    text = f"What is number {step} plus {place}? " + "Say how you came to it. " * 10
    yield "prompts", {**about, "text": text, "category": f"level {place % 5 + 1}"}
    chosen = place < BATCH
    yield (
        "judgments",
        {
            **about,
            "chosen": chosen,
            "reason": ("explore" if place < BATCH // 8 else "top") if chosen else "passed over",
            "score": draw.random() / 4,
            "distribution": {"0.10": 0.4, "0.25": 0.6},
        },
    )


def _name(step: int, place: int) -> str:
    """Half of the candidates were seen before."""
    return f"arithmetic:{step * CANDIDATES // 2 + place}"


def _group(
    step: int, place: int, draw: random.Random, sentences: list[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    asked = [{"role": "user", "content": f"What is number {step} plus {place}?"}]
    head = {
        "step": step,
        "prompt": _name(step, place),
        "category": f"level {place % 5 + 1}",
        "messages": asked,
        "n": GROUP,
    }
    rows = []
    for rollout in range(GROUP):
        said = " ".join(draw.choices(sentences, k=LINES)) + f" \\boxed{{{draw.randrange(100)}}}"
        rows.append(
            {
                "rollout": rollout,
                "messages": [{"role": "assistant", "content": said}],
                "reward": float(draw.random() < 0.5),
                "parts": {},
                "tokens": draw.randrange(500, 900),
                "truncated": draw.random() < 0.1,
                "failure": None,
                "trained": True,
            }
        )
    return head, rows


def _earned(head: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    about = {name: head[name] for name in ("step", "prompt", "category")}
    rewards, tokens = ([row[name] for row in rows] for name in ("reward", "tokens"))
    return {**about, "rewards": rewards, "tokens": tokens, "failed": 0}


def timed(routes: Routes, times: int = 5) -> dict[str, list[float]]:
    """Seconds of each query, so many times."""
    seconds: dict[str, list[float]] = {name: [] for name in QUERIES}
    for name, address in QUERIES.items():
        for _ in range(times):
            start = time.process_time()
            status, _ = routes.answer(address)
            seconds[name].append(time.process_time() - start)
            assert status == 200, address
    return seconds


def measure(rollouts: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["METIS_HOME"] = f"{folder}/cache"
        run = Path(folder) / "run"
        make(run, rollouts)
        [opened] = open_folders([run])
        assert isinstance(opened, Opened)
        start = time.process_time()
        opened.index.update()
        built = time.process_time() - start
        size = opened.index.database.path.stat().st_size
        whole = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        said = f"{rollouts:,} rollouts, {whole / 1e6:.0f} MB: index of {size / 1e6:.0f} MB"
        print(f"{said} built in {built:.1f} s")
        seconds = timed(Routes([opened]))
        for name, found in seconds.items():
            print(f"{name:26} {max(found):.3f} s")
        searched = [max(found) for name, found in seconds.items() if "answers" in QUERIES[name]]
        print(f"slowest page of answers    {max(searched):.3f} s")
        opened.close()


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else ROLLOUTS)
