"""Damaged folders: what every command that reads them answers.

    python benchmarks/corruptions.py [--cases 1000] [--seed 0] [--keep FOLDER]

Makes a run with checkpoints, a run with transcripts, a comparison and a survey, damages one file of
a copy (removed, emptied, cut, garbled in a few bytes or in all, a line changed into other JSON, a
folder in its place, unreadable text), and runs a command on it. It may succeed or refuse with a
message and exit code 2 (`compare`, where one of its runs cannot go on, with 1); anything else
counts as a traceback. Prints how often each came about, by kind of
damage and by command, and every traceback once. Fails where there is one.

With `--keep` the folders that led to one are kept.
"""

import argparse
import collections
import contextlib
import gzip
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import metis
from metis.cli import main as command
from metis.errors import MetisError

PUBLISHED = Path(__file__).resolve().parent.parent / "evidence/quickstart-cpu/seed-0"
SMALL = ["engine=simulated", "engine.prompts=40", "batch=4", "group=4"]
TRAIN = [*SMALL, "curriculum=metis", "checkpoints.every=2", "evaluate=2"]

Damage = Callable[[Path, random.Random], None]


def removed(file: Path, draw: random.Random) -> None:
    file.unlink()


def emptied(file: Path, draw: random.Random) -> None:
    file.write_bytes(b"")


def cut(file: Path, draw: random.Random) -> None:
    os.truncate(file, draw.randrange(max(file.stat().st_size, 1)))


def garbled(file: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 3, 30])):
        if content:
            content[draw.randrange(len(content))] = draw.randrange(256)
    file.write_bytes(bytes(content))


def replaced(file: Path, draw: random.Random) -> None:
    file.write_bytes(draw.randbytes(draw.choice([1, 100, 5000])))


def other_json(file: Path, draw: random.Random) -> None:
    """A value of a line, or a line, becomes one of another kind."""
    packed = file.suffix == ".gz"
    with contextlib.suppress(ValueError, OSError, EOFError):
        content = gzip.decompress(file.read_bytes()) if packed else file.read_bytes()
        lines = content.split(b"\n") if ".jsonl" in file.name else [content]
        at = draw.randrange(len(lines))
        lines[at] = json.dumps(_altered(json.loads(lines[at]), draw)).encode()
        whole = b"\n".join(lines)
        file.write_bytes(gzip.compress(whole, mtime=0) if packed else whole)


def _altered(value: object, draw: random.Random) -> object:
    other: list[object] = [None, True, -1, 1e308, 10**30, "", "\x00\u202e", [], {}, [[]], {"a": {}}]
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        if draw.random() < 0.2:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: _altered(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        at = draw.randrange(len(value))
        return [*value[:at], _altered(value[at], draw), *value[at + 1 :]]
    return draw.choice(other)


def a_folder(file: Path, draw: random.Random) -> None:
    file.unlink()
    file.mkdir()


def no_text(file: Path, draw: random.Random) -> None:
    file.write_bytes(b'{"step": 1, "prompt": "\xff\xfe\x00"}\n' * 3)


DAMAGES: tuple[Damage, ...] = (
    removed, emptied, cut, garbled, replaced, other_json, other_json, other_json, a_folder, no_text
)  # fmt: skip


def loaded(folder: Path) -> int:
    """Every table of a run, in Python."""
    run = metis.load(folder)
    for name in ("metrics", "rollouts", "validations", "judgments", "prompts", "accuracy", "table"):
        if hasattr(type(run), name):
            getattr(run, name)
    repr(run)
    return 0


def on_run(folder: Path, out: Path) -> dict[str, Callable[[], int]]:
    """What is done with a run that has checkpoints."""
    config = str(folder / "config.json")
    longer = ["train", *TRAIN, "steps=8", "--out", str(folder)]
    return {
        "train, which resumes": lambda: command(longer),
        "train from config.json": lambda: command(["train", config, "--out", str(out / "new")]),
        **on_shown(folder, out),
    }


def on_shown(folder: Path, out: Path) -> dict[str, Callable[[], int]]:
    """What is done with a run that is only read."""
    name, inspect = str(folder), ["inspect", str(folder)]
    return {
        "report": lambda: command(["report", name, "--out", str(out / "report")]),
        "inspect": lambda: command(inspect),
        "inspect --step": lambda: command([*inspect, "--step", "2", "--all"]),
        "view": lambda: command(["view", name, "--bundle", str(out / "page")]),
        "export --messages": lambda: command(["export", name, "--messages", str(out / "m.jsonl")]),
        "metis.load": lambda: loaded(folder),
    }


def on_comparison(folder: Path, out: Path) -> dict[str, Callable[[], int]]:
    name = str(folder)
    return {
        "compare": lambda: command(["compare", "--out", name]),
        "report": lambda: command(["report", name, "--out", str(out / "report")]),
        "view": lambda: command(["view", name, "--bundle", str(out / "page")]),
        "metis.load": lambda: loaded(folder),
    }


def on_survey(folder: Path, out: Path) -> dict[str, Callable[[], int]]:
    name = str(folder)
    again = ["survey", *SMALL, "--prompts", "20", "--out", name]
    return {
        "survey, which resumes": lambda: command(again),
        "inspect": lambda: command(["inspect", name]),
        "view": lambda: command(["view", name, "--bundle", str(out / "page")]),
        "metis.load": lambda: loaded(folder),
    }


SUBJECTS = {"run": on_run, "shown": on_shown, "comparison": on_comparison, "survey": on_survey}


def make(base: Path) -> None:
    """The undamaged folders."""
    compare = ["--curricula", "uniform,mopps", "--seeds", "0,1", "steps=4", "evaluate=2"]
    with quiet():
        command(["train", *TRAIN, "steps=4", "--out", str(base / "run")])
        command(["compare", *SMALL, *compare, "--out", str(base / "comparison")])
        command(["survey", *SMALL, "--prompts", "20", "--out", str(base / "survey")])
    shutil.copytree(PUBLISHED, base / "shown")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    by_damage: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    by_command: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    traces: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["METIS_HOME"] = str(Path(scratch) / "home")
        base = Path(scratch) / "base"
        base.mkdir()
        make(base)
        for case in range(chosen.cases):
            draw = random.Random(f"{chosen.seed}/{case}")
            ended, damage, name, trace = tried(base, Path(scratch) / "case", draw)
            by_damage[damage][ended] += 1
            by_command[name][ended] += 1
            if trace and trace.splitlines()[-2] not in traces:
                traces[trace.splitlines()[-2]] = f"case {case}: {damage}, {name}\n{trace}"
                if chosen.keep:
                    shutil.copytree(Path(scratch) / "case", chosen.keep / str(case))
            shutil.rmtree(Path(scratch) / "case")
    for title, counts in (("damage", by_damage), ("command", by_command)):
        print(f"{title:<26}{'succeeds':>10}{'refuses':>10}{'traceback':>11}")
        for name, count in sorted(counts.items()):
            ends = (count["succeeds"], count["refuses"], count["traceback"])
            print(f"{name:<26}{ends[0]:>10}{ends[1]:>10}{ends[2]:>11}")
        print()
    print(*traces.values(), sep="\n")
    failed = sum(count["traceback"] for count in by_damage.values())
    print(f"{chosen.cases} damaged folders, {failed} tracebacks")
    return 1 if failed else 0


def tried(base: Path, scratch: Path, draw: random.Random) -> tuple[str, str, str, str]:
    """How a command on a damaged folder ended, the damage, the command and its traceback."""
    subject = draw.choice(list(SUBJECTS))
    folder = scratch / subject
    shutil.copytree(base / subject, folder)
    file = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    damage = draw.choice(DAMAGES)
    damage(file, draw)
    commands = SUBJECTS[subject](folder, scratch)
    name = draw.choice(list(commands))
    what = damage.__name__.replace("_", " ")
    printed, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            code = commands[name]()
    except MetisError:
        return "refuses", what, name, ""
    except Exception:
        where = f"{file.relative_to(folder)} of the {subject}"
        return "traceback", what, name, f"{where}\n{traceback.format_exc()}"
    if code == 0:
        return "succeeds", what, name, ""
    said = errors.getvalue() or printed.getvalue()
    if (code == 2 or (code == 1 and name == "compare")) and said and "Traceback" not in said:
        return "refuses", what, name, ""
    return "traceback", what, name, f"exit code {code}\n{said}\n"


if __name__ == "__main__":
    sys.exit(main())
