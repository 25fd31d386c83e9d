"""`metis.judge`: what `metis judge` does."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from metis.library.data import digest, filed
from metis.library.results import RankingResult
from metis.library.settings import console, gathered, in_memory, show_markdown, words
from metis.rankings.command import FOLDER, conduct
from metis.run.manifest import read_config


def judge(
    model: str | Path,
    prompts: Any,
    recipe: str | Path | None = None,
    *,
    reward: Any = None,
    calibrate: int = 200,
    server: str = "",
    pooling: str = "",
    out: str | Path | None = None,
    show: bool = True,
    **settings: Any,
) -> RankingResult:
    """Rank prompts by the expected variance of their rewards, before anyone trains.

        metis.judge("Qwen/Qwen2.5-0.5B-Instruct", "prompts.jsonl", reward=score).ranking

    prompts    the path of a file, or rows
    calibrate  prompts to roll out
    server     URL of an OpenAI-compatible server for rollouts
    pooling    URL of vLLM's pooling server for hidden states; by default `server`
    out        the folder; without one, under `rankings/`
    show       print the progress and the summary, as the command does

    The other arguments are those of `metis.train`. The same call goes on, if stopped.
    """
    place = FOLDER / f"data-{digest(prompts)}" if in_memory(prompts) else FOLDER
    place = Path(out) if out else place
    with gathered(settings, None, None, reward, place) as given, filed(prompts, place) as path:
        chosen = Namespace(
            model=str(model),
            prompts=Path(path),
            settings=[*([str(recipe)] if recipe else []), *words(given)],
            calibrate=calibrate,
            server=server,
            pooling=pooling,
            out=Path(out) if out else None,
        )
        folder, text = conduct(chosen, console(show))
    if show:
        show_markdown(text)
    return RankingResult(folder, read_config(folder))
