"""The plan of a comparison: named variants, each a curriculum or other settings, and seeds."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from metis import config, files
from metis.curricula import CURRICULA
from metis.errors import MetisError, require_folder

SCHEMA = 1
FILE = "compare.json"
BASELINE = "uniform"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NEXT_SETTING = re.compile(r",(?=[\w.]+=)")


@dataclass(frozen=True)
class Variant:
    """A name, and the key=value settings that tell it from the other variants."""

    name: str
    settings: tuple[str, ...]

    def run(self, seed: int) -> str:
        """The name of one of its runs."""
        return f"{self.name}-{seed}"


def parse_variants(curricula: str, others: Sequence[str]) -> list[Variant]:
    """The variants of `--curricula a,b,c` and of every `--variant name:key=value,...`."""
    variants = [_curriculum(name) for name in filter(None, curricula.split(","))]
    variants += [_variant(text) for text in others]
    for variant in variants:
        if [each.name for each in variants].count(variant.name) > 1:
            raise MetisError(
                f"variant {variant.name!r} is named twice: give one of them another name"
            )
    return variants


def _curriculum(text: str) -> Variant:
    """The name of a curriculum; for your own, that of its class."""
    return Variant(_checked(text.strip().rpartition(":")[2], text), (f"curriculum={text.strip()}",))


def _variant(text: str) -> Variant:
    name, colon, rest = text.partition(":")
    settings = tuple(_NEXT_SETTING.split(rest)) if colon and rest else ()
    if not settings or not all("=" in setting for setting in settings):
        raise MetisError(f"--variant {text!r}: write NAME:key=value,key=value")
    return Variant(_checked(name, text), settings)


def _checked(name: str, text: str) -> str:
    if not _NAME.fullmatch(name):
        raise MetisError(f"variant {text!r}: a name has letters, digits, '.', '_' and '-' alone")
    return name


def parse_seeds(text: str) -> list[int]:
    """The numbers of `0,1,2` or `0-4`, each once."""
    return list(dict.fromkeys(_seeds(text)))


def _seeds(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise MetisError(f"--seeds {text!r}: write numbers, such as 0,1,2 or 0-4")
        seeds = range(int(first), int(last or first) + 1)
        if not seeds:
            raise MetisError(
                f"--seeds {text!r}: {part.strip()!r} is empty; write the smaller first"
            )
        yield from seeds


@dataclass(frozen=True)
class Suite:
    """Benchmarks that finished runs are evaluated on, by the options of `metis eval`."""

    names: tuple[str, ...] = ()
    samples: int = 1
    checkpoint: str = ""

    @property
    def options(self) -> list[str]:
        """The words of a command line that name it."""
        words = ["--suite", *self.names, "--samples", str(self.samples)]
        return [*words, *(["--checkpoint", self.checkpoint] if self.checkpoint else [])]


@dataclass(frozen=True)
class ComparisonPlan:
    """Variants and seeds of a comparison, with what all of its runs share.

    crowded   runs made while others used the same device: their seconds mean nothing
    finished  runs that spent their budget, whose checkpoints may be gone
    baseline  the variant that others are compared with, where it was named
    suite     the evaluation of finished runs; of no names there is none
    """

    recipe: str
    settings: tuple[str, ...]
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    crowded: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    baseline: str = ""
    suite: Suite = Suite()

    def runs(self) -> list[tuple[Variant, int]]:
        """All runs seed by seed, so that an interrupted comparison has complete seeds."""
        return [(variant, seed) for seed in self.seeds for variant in self.variants]

    def overrides(self, variant: Variant, seed: int) -> list[str]:
        """The settings of a run."""
        return [*self.settings, *variant.settings, f"seed={seed}"]

    def command(self, variant: Variant, seed: int, out: Path) -> list[str]:
        """The command line of a run, after `metis`."""
        recipe = [self.recipe] if self.recipe else []
        return [
            "train",
            *recipe,
            *self.overrides(variant, seed),
            "--out",
            str(out / variant.run(seed)),
        ]

    def configs(self) -> dict[str, config.Config]:
        """The settings of each variant, complete, for its first seed; bad ones are refused."""
        recipe = Path(self.recipe) if self.recipe else None
        configs = {}
        for variant in self.variants:
            try:
                configs[variant.name] = config.load_config(
                    recipe, self.overrides(variant, self.seeds[0])
                )
            except MetisError as error:
                raise MetisError(f"variant {variant.name!r}: {error}") from None
            _require_its_own_name(variant, configs[variant.name].resolved["curriculum"]["name"])
        return configs

    def on_the_same_prompts(self) -> "ComparisonPlan":
        """The plan with one data seed for all runs, unless the settings give one."""
        variants = self.configs().values()
        if any(variant.training.data_seed is not None for variant in variants):
            return self
        return replace(self, settings=(*self.settings, "data_seed=0"))

    def joined(self, earlier: "ComparisonPlan") -> "ComparisonPlan":
        """An earlier plan and what this one adds to it."""
        for name in ("recipe", "settings"):
            before, now = getattr(earlier, name), getattr(self, name)
            if before != now:
                raise MetisError(
                    f"{name} = {_words(now)}: this comparison was begun with {_words(before)}; "
                    "name another --out, or give each setting to a --variant"
                )
        variants = {variant.name: variant for variant in earlier.variants}
        for variant in self.variants:
            if variants.setdefault(variant.name, variant) != variant:
                raise MetisError(
                    f"variant {variant.name!r} has {_words(variants[variant.name].settings)} here: "
                    "give the new one another name"
                )
        seeds = tuple(sorted({*earlier.seeds, *self.seeds}))
        return replace(earlier, variants=tuple(variants.values()), seeds=seeds)

    def evaluated_on(self, suite: Suite) -> "ComparisonPlan":
        """The plan with an evaluation of its runs; a plan that has another one refuses it."""
        if not suite.names or suite == self.suite:
            return self
        if self.suite.names:
            raise MetisError(
                f"{' '.join(suite.options)}: runs of this comparison are evaluated with "
                f"{' '.join(self.suite.options)}; evaluate runs otherwise with `metis eval`"
            )
        return replace(self, suite=suite)

    def save(self, out: Path) -> None:
        document = {
            "schema": SCHEMA,
            "recipe": self.recipe,
            "settings": list(self.settings),
            "arms": {variant.name: list(variant.settings) for variant in self.variants},
            "seeds": list(self.seeds),
            "crowded": sorted(self.crowded),
            "finished": sorted(self.finished),
            "baseline": self.baseline,
            **({"suite": asdict(self.suite)} if self.suite.names else {}),
        }
        try:
            out.mkdir(parents=True, exist_ok=True)
            with files.atomic(out / FILE) as file:
                file.write(f"{json.dumps(document, indent=2)}\n".encode())
        except OSError as error:
            raise MetisError(
                f"{str(out / FILE)!r} cannot be written ({error.strerror or error}): make room "
                "there, or name another --out"
            ) from None


def saved(out: Path) -> ComparisonPlan | None:
    """The plan of a folder; None where it has none."""
    require_folder(out)
    try:
        document: dict[str, Any] = json.loads((out / FILE).read_bytes())
        schema = document.get("schema")
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError):
        raise _damaged(out) from None
    if isinstance(schema, int) and schema != SCHEMA:
        raise MetisError(
            f"{str(out / FILE)!r} has schema {schema}, this METIS reads {SCHEMA}: use the version "
            "that wrote it, or name another folder"
        )
    try:
        return _plan(document)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _damaged(out) from None


def _plan(document: Mapping[str, Any]) -> ComparisonPlan:
    """A plan from its saved form; wrong types raise a ValueError."""
    plan = ComparisonPlan(
        document["recipe"],
        _all_of(str, document["settings"]),
        tuple(Variant(name, _all_of(str, words)) for name, words in document["arms"].items()),
        _all_of(int, document["seeds"]),
        _all_of(str, document["crowded"]),
        _all_of(str, document.get("finished", [])),
        document.get("baseline", ""),
        _suite(document.get("suite", {})),
    )
    named = [variant.name for variant in plan.variants]
    if not named or not plan.seeds or (plan.baseline and plan.baseline not in named):
        raise ValueError
    _all_of(str, [plan.recipe, plan.baseline])
    return plan


def _suite(document: Mapping[str, Any]) -> Suite:
    suite = Suite(**{**document, "names": _all_of(str, document.get("names", []))})
    _all_of(str, [suite.checkpoint])
    _all_of(int, [suite.samples])
    return suite


def _all_of(kind: type, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise ValueError
    return tuple(values)


def _damaged(out: Path) -> MetisError:
    return MetisError(f"{str(out / FILE)!r} is damaged: restore it, or name another folder")


def _require_its_own_name(variant: Variant, curriculum: str) -> None:
    """Refuse the name of one curriculum for a variant that trains with another."""
    if variant.name in CURRICULA and variant.name != curriculum.rpartition(":")[2]:
        raise MetisError(
            f"variant {variant.name!r} would train with curriculum={curriculum}: give it "
            f"curriculum={variant.name}, or another name"
        )


def _words(value: str | tuple[str, ...]) -> str:
    words = value if isinstance(value, str) else " ".join(value)
    return repr(words) if words else "none"
