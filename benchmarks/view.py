"""Seconds until a filter of `metis view` has drawn its rows, on a run of 10,000 groups.

    python benchmarks/view.py [GROUPS]

Needs playwright and Chromium, as the tests do. A run is made up: 50 groups a step with one answer
each, and 400 candidates of which 350 are not chosen. It is written out as a bundle and opened in
headless Chromium; each filter is timed from its input to the frame after the rows are drawn.
"""

import json
import random
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metis.cli import main

GROUPS, BATCH, CANDIDATES, ROLLOUTS = 10_000, 50, 400, 8
WORDS = ("so", "the", "sum", "of", "both", "numbers", "is", "carry", "one", "digit", "then", "add")

TIMED = """([label, value]) => new Promise((done) => {
  const field = [...document.querySelectorAll("form label")]
    .find((each) => each.textContent.trim().startsWith(label)).querySelector("input, select");
  const start = performance.now();
  field.value = value;
  field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
})"""
FILTERS = {"Text": "number 77", "Category": "level 3", "Outcome": "all candidates", "Reason": "top"}


def make(folder: Path, groups: int = GROUPS) -> None:
    """Write the folder of a run with so many groups."""
    draw, logs = random.Random(0), dict[str, list[dict[str, Any]]]()
    for log in ("metrics", "judgments", "rollouts", "exemplars"):
        logs[log] = []
    for step in range(1, groups // BATCH + 1):
        logs["metrics"].append({"step": step, "batch/groups": BATCH, "batch/reward": 0.5})
        for place in range(CANDIDATES):
            _candidate(step, place, draw, logs)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(
        json.dumps({"steps": groups // BATCH, "seed": 0, "curriculum": {"name": "metis"}})
    )
    for log, rows in logs.items():
        (folder / f"{log}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _candidate(
    step: int, place: int, draw: random.Random, logs: dict[str, list[dict[str, Any]]]
) -> None:
    name, chosen = f"arithmetic:{step * CANDIDATES + place}", place < BATCH
    judgment = {
        "step": step,
        "prompt": name,
        "chosen": chosen,
        "reason": ("explore" if place < BATCH // 10 else "top") if chosen else "passed over",
        "score": draw.random() / 4,
        "distribution": {"0.10": 0.4, "0.25": 0.6},
    }
    logs["judgments"].append(judgment)
    if not chosen:
        return
    answer = " ".join(draw.choice(WORDS) for _ in range(200))
    logs["rollouts"].append(
        {
            "step": step,
            "prompt": name,
            "category": f"level {place % 5 + 1}",
            "rewards": [float(draw.random() < 0.5) for _ in range(ROLLOUTS)],
            "tokens": [draw.randrange(20, 300) for _ in range(ROLLOUTS)],
            "failed": 0,
            "text": f"What is number {step} plus {place}?",
            "answers": [answer],
        }
    )


def timed(page: Any, of: Callable[[list[float]], float] = max) -> dict[str, float]:
    """Seconds of each filter: of three goes the slowest, unless another is asked for."""
    seconds = {}
    for label, value in FILTERS.items():
        before = "rolled out" if label == "Outcome" else ""
        goes = []
        for _ in range(3):
            page.evaluate(TIMED, [label, before])
            goes.append(page.evaluate(TIMED, [label, value]) / 1000)
        page.evaluate(TIMED, [label, before])
        seconds[label] = of(goes)
    return seconds


def measure(groups: int) -> None:
    from playwright.sync_api import sync_playwright

    launched = runpy.run_path(str(Path(__file__).parents[1] / "tests/chromium.py"))["launched"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run, bundle = Path(folder) / "run", Path(folder) / "bundle"
        make(run, groups)
        start = time.perf_counter()
        main(["view", str(run), "--bundle", str(bundle)])
        written = time.perf_counter() - start
        with launched(playwright) as browser:
            page = browser.new_page()
            start = time.perf_counter()
            page.goto((bundle / "index.html").as_uri())
            page.wait_for_selector(".rows tbody tr")
            opened = time.perf_counter() - start
            seconds = timed(page)
    size = groups // BATCH * CANDIDATES
    print(
        f"{groups:,} groups, {size:,} candidates: read in {written:.2f} s, open in {opened:.2f} s"
    )
    for label, value in seconds.items():
        print(f"filter by {label.lower():8}  {value:.3f} s")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else GROUPS)
