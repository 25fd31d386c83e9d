"""`metis.survey`: what `metis survey` does."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from metis.library.data import digest
from metis.library.results import SurveyResult
from metis.library.settings import console, gathered, in_memory, show_markdown, words
from metis.run.manifest import read_config
from metis.surveys.command import FOLDER, conduct


def survey(
    recipe: str | Path | None = None,
    *,
    model: str | Path | None = None,
    data: Any = None,
    reward: Any = None,
    prompts: int = 256,
    step: bool = True,
    out: str | Path | None = None,
    keep: str | Path | None = None,
    show: bool = True,
    **settings: Any,
) -> SurveyResult:
    """Before training: is there anything to gain in this training set? The same call resumes.

        metis.survey(model="Qwen/Qwen2.5-0.5B-Instruct", data=rows, reward=score)

    prompts   prompts to roll out
    step      also measure a step of training
    out       the folder; without one, under `surveys/`
    keep      also write the outcomes as a small file, which ends in .jsonl.gz
    show      print the progress and the page, as the command does

    The other arguments are those of `metis.train`.
    """
    folder = Path(out) if out else None
    if folder is not None:
        place = folder
    else:
        place = FOLDER / f"data-{digest(data)}" if in_memory(data) else FOLDER
    with gathered(settings, model, data, reward, place) as given:
        chosen = Namespace(
            settings=[*([str(recipe)] if recipe else []), *words(given)],
            prompts=prompts,
            no_step=not step,
            out=folder,
            keep=Path(keep) if keep else None,
        )
        folder, text = conduct(chosen, console(show))
    if show:
        show_markdown(text)
    return SurveyResult(folder, read_config(folder))
