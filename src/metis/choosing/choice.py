"""The choice of a curriculum by recipe and survey: those it can use, and what each may cost.

The survey decides: where few prompts are informative there is much to select, where many are there
is little. What each curriculum cost on the measured training set that is most alike follows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metis.config import Config, load_config
from metis.core.needs import needs_of
from metis.curricula import CURRICULA
from metis.errors import MetisError
from metis.run.folder import log_file, read_log
from metis.run.manifest import read_config
from metis.start import trainer
from metis.surveys.advice import advice
from metis.surveys.facts import PromptOutcome, SurveyFacts
from metis.surveys.measured import MeasuredPool, nearest
from metis.surveys.prediction import predict
from metis.text import markdown_table

AGAIN = "come round again"
"""The words of a curriculum's needs that a run of less than an epoch does not meet."""

SAME = ("task", "engine.model")
"""The settings that a survey shares with its recipe: what is asked, and who answers."""


@dataclass(frozen=True)
class Candidate:
    """A curriculum for a recipe; `refusal` is why a run with it would not start."""

    name: str
    needs: str
    refusal: str


@dataclass(frozen=True)
class RecipeChoice:
    """The curricula for a recipe, and its survey's facts if there is a survey."""

    recipe: str
    config: Config
    prompts: int
    candidates: Sequence[Candidate]
    survey: Path | None
    facts: SurveyFacts | None

    @property
    def epochs(self) -> float:
        """The epochs of a run: passes over the training set."""
        training = self.config.training
        return training.steps * training.batch / self.prompts

    @property
    def task(self) -> str:
        """The name of the task; empty where it is simulated."""
        return str(self.config.resolved.get("task", {}).get("name", ""))

    @property
    def pool(self) -> MeasuredPool | None:
        """The most similar measured training set, if any prompt is informative."""
        share = self.facts.informative.value if self.facts else 0.0
        return nearest(share) if share else None

    def lines(self) -> Iterator[str]:
        """The answer as Markdown."""
        training, task = self.config.training, self.task or "a simulated task"
        yield (
            f"{self.recipe}: {task} on engine={self.config.engine_name}, "
            f"{training.steps} steps of {training.batch} prompts, {self.epochs:.2f} epochs of "
            f"{self.prompts:,} prompts.\n"
        )
        if self.facts is None:
            yield f"No survey: `metis survey {self.recipe}` says how much there is to gain.\n"
        else:
            shares = self.facts.shares().items()
            found = ", ".join(f"{share.value:.0%} {kind}" for kind, share in shares)
            yield f"{self.survey}: {len(self.facts.outcomes)} prompts, {found}.\n"
            yield f"{advice(self.facts, training.group, self.task)}\n"
        if self.pool is not None:
            yield from _measured(self.pool)
        if self.epochs < 1:
            again = ", ".join(each.name for each in self.candidates if AGAIN in each.needs)
            yield f"A run sees no prompt twice; {again} know one by its earlier rollouts alone.\n"
        rows = [["curriculum", "asks, beside rollouts", "here"]]
        rows += [[each.name, each.needs, each.refusal or "yes"] for each in self.candidates]
        yield markdown_table(rows)

    def document(self) -> dict[str, Any]:
        """The answer as JSON."""
        group = self.config.training.group
        expected = predict(self.facts.informative, self.task) if self.facts else None
        return {
            "recipe": self.recipe,
            "epochs": round(self.epochs, 4),
            "survey": str(self.survey) if self.survey else None,
            "shares": {k: s._asdict() for k, s in self.facts.shares().items()}
            if self.facts
            else {},
            "advice": advice(self.facts, group, self.task) if self.facts else None,
            "predicted": expected and expected._asdict(),
            "measured": self.pool
            and {
                "informative": self.pool.informative,
                "costs": {name: cost._asdict() for name, cost in self.pool.costs.items()},
            },
            "curricula": [asdict(each) for each in self.candidates],
        }


def choose(recipe: Path | None, overrides: Sequence[str], survey: Path | None) -> RecipeChoice:
    """Check every curriculum against a recipe; without a survey folder, find the recipe's."""
    config = load_config(recipe, overrides)
    kept = [each for each in overrides if not each.startswith("curriculum")]
    found = survey or _survey_of(config)
    facts = None
    if found is not None:
        if not log_file(found, "outcomes").exists():
            raise MetisError(
                f"--survey {str(found)!r} is no survey: name a folder of `metis survey`"
            )
        facts = SurveyFacts([PromptOutcome.of(row) for row in read_log(found, "outcomes")])
    candidates = [_candidate(recipe, kept, name) for name in CURRICULA]
    pool = config.pool()
    prompts = len(pool) if pool is not None else 0
    words = [*([str(recipe)] if recipe else []), *overrides]
    return RecipeChoice(" ".join(words), config, prompts, candidates, found, facts)


def _candidate(recipe: Path | None, overrides: Sequence[str], name: str) -> Candidate:
    needs = needs_of(CURRICULA[name]()).described()
    try:
        config = load_config(recipe, [*overrides, f"curriculum={name}"])
        for _ in trainer(config.engine_name).foreseen(config, Path("runs/none")):
            pass
    except MetisError as error:
        return Candidate(name, needs, str(error))
    return Candidate(name, needs, "")


def _survey_of(config: Config) -> Path | None:
    """The largest survey under `surveys/` of the same task and model."""
    found = []
    for file in Path("surveys").glob("*/config.json"):
        described = read_config(file.parent)
        if all(_at(described, key) == _at(config.resolved, key) for key in SAME):
            found.append((len(read_log(file.parent, "outcomes")), file.parent))
    return max(found, default=(0, None))[1]


def _at(settings: Any, key: str) -> Any:
    for part in key.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings


def _measured(pool: MeasuredPool) -> Iterator[str]:
    rows = [["curriculum", "steps", "rollouts", "total tokens"]]
    rows += [[name, *(f"{ratio:.2f}" for ratio in cost)] for name, cost in pool.costs.items()]
    yield (
        f"Cost to equal accuracy, uniform sampling's = 1, on the measured training set that is "
        f"nearest: {pool.informative:.1%} informative, additions, 135M parameters, three runs each "
        "(docs/when-it-pays.md):\n"
    )
    yield f"{markdown_table(rows)}\n"
