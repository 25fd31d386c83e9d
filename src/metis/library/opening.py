"""`metis.load`: a folder that a command or a call has made, as an object."""

import json
from pathlib import Path

from metis.comparisons.comparison import is_comparison
from metis.errors import MetisError
from metis.library.results import (
    ComparisonResult,
    EvaluationResult,
    RankingResult,
    SurveyResult,
    open_run,
)
from metis.library.run import TrainedRun
from metis.run.folder import log_file
from metis.run.manifest import read_config


def load(
    folder: str | Path,
) -> TrainedRun | SurveyResult | EvaluationResult | ComparisonResult | RankingResult:
    """Open the folder of a run, a survey, an evaluation, a comparison or a ranking.

    run = metis.load("runs/sums")
    pandas.DataFrame(run.rollouts)
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        what = "a file" if path.exists() else "there is no such folder"
        raise MetisError(f"{str(folder)!r}: {what}: name a folder that METIS wrote")
    if is_comparison(path):
        return ComparisonResult(path)
    if not (path / "config.json").exists():
        raise MetisError(f"{str(folder)!r} has no config.json: name a folder that METIS wrote")
    if log_file(path, "outcomes").exists():
        return SurveyResult(path, read_config(path))
    if log_file(path, "predictions").exists():
        return RankingResult(path, read_config(path))
    if log_file(path, "answers").exists():
        return EvaluationResult(path, read_results(path))
    return open_run(path)


def read_results(path: Path) -> dict[str, object]:
    """The results of an evaluation; none where it was stopped."""
    try:
        results: dict[str, object] = json.loads((path / "results.json").read_text("utf-8"))
        return results
    except FileNotFoundError:
        return {}
    except ValueError:
        raise MetisError(f"results.json of {str(path)!r} is damaged: evaluate again") from None
