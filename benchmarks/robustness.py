"""What becomes of a run that is killed, is long, runs out of disk, or sees the clock set back, and
of texts that no parser expects.

    python benchmarks/robustness.py kills [--kills 400] [--engine simulated|local] [--seed 0]
    python benchmarks/robustness.py steps [--steps 10000]
    python benchmarks/robustness.py disk [--sizes 20]
    python benchmarks/robustness.py clock
    python benchmarks/robustness.py texts [--texts 1000000] [--seed 0]

kills  one run, killed (SIGKILL) again and again after a random time and resumed; its logs in the
       end must be those of an undisturbed run, byte for byte.
steps  one long run on the simulated engine: its process may not hold more memory, nor take longer
       for a step, at the end than at a fifth of it (by a twentieth and a fifth).
disk   a run on a tmpfs of 16 KB to 2 MB (as root, or with user namespaces): it must refuse with
       one line and exit code 2, and go on to the same logs once there is room; then a run in a
       read-only folder.
clock  a run whose clock jumps back an hour in the middle; its logs but for times must be the same.
texts  judgments, numbers, programs and calls of functions: random ones, and valid ones garbled; a
       parser may take or refuse a text, not raise.

Each prints what happened, and ends with 1 where something else did.
"""

import argparse
import collections
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LOGS = ("metrics.jsonl", "judgments.jsonl", "rollouts.jsonl")
SIMULATED = ("engine=simulated", "engine.prompts=300", "batch=8", "group=4", "checkpoints.every=5")
LOCAL = (
    *("engine.model=smollm2-135m", "engine.max_tokens=8", "task=arithmetic", "task.prompts=60"),
    *("task.heldout=8", "batch=2", "group=2", "checkpoints.every=2", "evaluate=2"),
)


def training(folder: Path, settings: Sequence[str], *python: str) -> list[str]:
    """The command that trains, or resumes, in a folder."""
    run = [sys.executable, *(python or ("-m", "metis.cli")), "train", *settings]
    return [*run, "curriculum=metis", "--out", str(folder)]


def logs(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in LOGS}


def finished(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True)


def kills(given: argparse.Namespace) -> bool:
    settings = (*SIMULATED, "steps=60") if given.engine == "simulated" else (*LOCAL, "steps=6")
    draw = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        whole, began = Path(place) / "whole", time.monotonic()
        finished(training(whole, settings)).check_returncode()
        takes, expected = time.monotonic() - began, logs(whole)
        done, runs, differing, said = 0, 0, 0, collections.Counter[str]()
        while done < given.kills:
            folder, code, runs = Path(place) / f"run{runs}", None, runs + 1
            while code is None:
                patience = takes * draw.uniform(0.2, 1.2) if done < given.kills else None
                code, words = _patient(training(folder, settings), patience)
                done += code is None
                if code:
                    said[words.strip().splitlines()[-1]] += 1
            differing += bool(code) or logs(folder) != expected
            shutil.rmtree(folder)
    print(f"{given.engine}: {done} kills in {runs} runs; {differing} runs with other logs")
    for line, count in said.items():
        print(f"  {count} times: {line}")
    return not differing


def _patient(command: Sequence[str], patience: float | None) -> tuple[int | None, str]:
    """Run a command, and kill it after so many seconds; its exit code, None where it was killed."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, words = process.communicate(timeout=patience)
            return process.returncode, words
        except subprocess.TimeoutExpired:
            process.kill()
            return None, ""


def steps(given: argparse.Namespace) -> bool:
    import metis

    part, seen = given.steps // 10, [(0, 0.0, 0.0)]

    def look(step: int, _: object) -> None:
        if step and step % part == 0:
            seen.append((step, _resident(), time.process_time()))

    engine = {"name": "simulated", "prompts": 1000}
    settings: dict[str, Any] = {
        "engine": engine,
        "batch": 8,
        "group": 4,
        "checkpoints": {"every": 50},
    }
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        metis.train(
            out=out, on_step=look, show=False, curriculum="metis", steps=given.steps, **settings
        )
    spent = [1e3 * (after[2] - before[2]) / part for before, after in itertools.pairwise(seen)]
    for (step, memory, _), each in zip(seen[1:], spent, strict=True):
        print(f"step {step:7,}: {memory / 1e6:6.1f} MB, {each:5.2f} ms of CPU a step")
    return seen[-1][1] < 1.05 * seen[2][1] and spent[-1] < 1.2 * spent[1]


def _resident() -> float:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def disk(given: argparse.Namespace) -> bool:
    """Runs itself again where it may mount."""
    if os.environ.get("METIS_MOUNTS") != "1":
        command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, *sys.argv]
        if os.geteuid() == 0:
            command = ["unshare", "--mount", sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, "METIS_MOUNTS": "1"}).returncode == 0
    settings = (*SIMULATED, "steps=30", "evaluate=5")
    with tempfile.TemporaryDirectory() as place:
        whole, small = Path(place) / "whole", Path(place) / "small"
        finished(training(whole, settings)).check_returncode()
        expected, well = logs(whole), True
        small.mkdir()
        outcomes = collections.Counter[str]()
        for number in range(given.sizes):
            size = int(16 * 2 ** (7 * number / max(given.sizes - 1, 1)))
            options = f"size={size}k"
            mount = ["mount", "--types", "tmpfs", "--options", options, "tmpfs", str(small)]
            subprocess.run(mount, check=True)
            first = finished(training(small / "run", settings))
            lines = first.stderr.strip().splitlines()
            refused = first.returncode == 2 and "Traceback" not in first.stderr
            subprocess.run(["mount", "--options", "remount,size=64m", str(small)], check=True)
            again = finished(training(small / "run", settings))
            same = again.returncode == 0 and logs(small / "run") == expected
            well = well and same and (refused or first.returncode == 0)
            last = lines[-1].partition(" '")[0] if lines and first.returncode else "finished"
            after = "the same logs with room" if same else f"then: {again.stderr.strip()[-300:]}"
            outcomes[f"{last}; {after}"] += 1
            if not (refused or first.returncode == 0):
                print(first.stderr)
            subprocess.run(["umount", str(small)], check=True)
        subprocess.run(["mount", "--bind", str(small), str(small)], check=True)
        subprocess.run(["mount", "--options", "remount,bind,ro", str(small)], check=True)
        barred = finished(training(small / "run", settings))
        subprocess.run(["umount", str(small)], check=True)
        outcomes[f"read-only: {barred.stderr.strip().partition(' ' + repr(str(small)))[0]}"] += 1
        well = well and barred.returncode == 2 and "Traceback" not in barred.stderr
    for outcome, count in outcomes.items():
        print(f"{count} times: {outcome}")
    return well


BACK = """
import itertools, sys, time
real, calls = time.time, itertools.count()
time.time = lambda: real() - 3600 * (next(calls) > 100)
from metis.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""Runs a command with a clock that is set back an hour after a hundred looks at it."""


def clock(given: argparse.Namespace) -> bool:
    settings = (*SIMULATED, "steps=30", "evaluate=5")
    with tempfile.TemporaryDirectory() as place:
        whole, back = Path(place) / "whole", Path(place) / "back"
        finished(training(whole, settings)).check_returncode()
        run = finished(training(back, settings, "-c", BACK))
        same = run.returncode == 0 and logs(whole) == logs(back)
        read = [finished([sys.executable, "-m", "metis.cli", name, str(back)]) for name in READERS]
    print(
        f"clock set back: exit {run.returncode}, logs {'the same' if same else 'differ'}; ", end=""
    )
    print(", ".join(f"{name} {done.returncode}" for name, done in zip(READERS, read, strict=True)))
    return same and not any(done.returncode for done in read)


READERS = ("report", "inspect")


def texts(given: argparse.Namespace) -> bool:
    from metis.curricula.judge import parse_variance
    from metis.errors import MetisError
    from metis.tasks.base import last_number
    from metis.tasks.bfcl import calls
    from metis.tasks.code.extraction import program
    from metis.tasks.math.task import reward

    def called(text: str) -> object:
        try:
            return calls.read(text)
        except calls.Unreadable:
            return None

    def parsers(text: str) -> dict[str, Callable[[], object]]:
        return {
            "judgments": lambda: parse_variance(text),
            "numbers": lambda: last_number(text),
            "programs": lambda: program(text, ["f"]),
            "calls": lambda: called(text),
            "mathematics, without the verifier": lambda: reward(text, "1/2", verify=False),
        }

    draw, counts, slowest = random.Random(given.seed), collections.Counter[str](), 0.0
    raised: dict[str, str] = {}
    for _ in range(given.texts):
        text = written(draw)
        for name, parse in parsers(text).items():
            began = time.perf_counter()
            try:
                parse()
            except MetisError:
                pass
            except Exception as error:
                counts[name] += 1
                where = traceback.extract_tb(error.__traceback__)[-1]
                raised.setdefault(f"{name}: {error!r} in {where.name}", json.dumps(text)[:200])
            slowest = max(slowest, time.perf_counter() - began)
    print(f"{given.texts} texts to each parser; slowest {slowest * 1e3:.0f} ms; raised: ", end="")
    print(", ".join(f"{name} {counts[name]}" for name in parsers("")))
    for line, text in raised.items():
        print(f"  {line}: {text}")
    return not raised


VALID = (
    r"The variance is about \boxed{0.1875}.",
    r"First \boxed{0.25}, then \boxed{ 1e-2 }",
    "the answer is 1,234.50 or so",
    "[cd(folder='document'), mv(source='a.pdf', destination='b')]",
    "```python\n[ls(a=True)]\n```",
    "```python\ndef f(n):\n    return sum(range(n))\n```",
    r"so $x = \frac{1}{2}$, that is \boxed{\frac{1}{2}}",
    '[{"name": "post", "arguments": {"content": "\\u00e9", "tags": ["#a", 1.5, null]}}]',
)
PIECES = (
    *(r"\boxed{", "}", "{", "[", "]", "(", ")", "'", '"', "`", "```", "\n", "\\", ",", "=", "-"),
    *("0.25", "1e999", "nan", "inf", "0x1f", "1_000", "٣", "²", "½", "\x00", "\ud800", "\u202e"),
    *(
        "🙂",
        "lambda: 0",
        "*",
        "**",
        "f'{x}'",
        "__class__",
        "def f(",
        "<think>",
        "</think>",
        "$",
        " ",
    ),
)


def written(draw: random.Random) -> str:
    """Pieces in any order, or a valid text with some of it cut out, doubled or replaced."""
    if draw.random() < 0.3:
        return "".join(draw.choices(PIECES, k=draw.randrange(40)))
    text = draw.choice(VALID)
    for _ in range(draw.randrange(1, 6)):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.randrange(8))
        new = draw.choice(
            ["", text[start:end] * 2, draw.choice(PIECES), chr(draw.randrange(0x300))]
        )
        text = text[:start] + new + text[end:]
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["kills", "steps", "disk", "clock", "texts"])
    parser.add_argument("--kills", type=int, default=400)
    parser.add_argument("--engine", choices=["simulated", "local"], default="simulated")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--sizes", type=int, default=20)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tried = {"kills": kills, "steps": steps, "disk": disk, "clock": clock, "texts": texts}
    return 0 if tried[given.what](given) else 1


if __name__ == "__main__":
    sys.exit(main())
