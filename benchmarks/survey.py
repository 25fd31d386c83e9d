"""Seconds of the rollouts of a survey, which is saved round by round; loading is not counted.

    python benchmarks/survey.py [RECIPE | key=value ...] [--prompts 200] [--full]

By default additions with SmolLM2-135M, 8 rollouts of at most 160 tokens each. With --full no answer
of the local engine ends before.
"""

import argparse
import tempfile
import time
from contextlib import closing
from pathlib import Path

from rich.console import Console

from metis import config, loop
from metis.config import generation
from metis.engines.local.engine import LocalEngine
from metis.surveys.collect import SurveyFolder, SurveyView, collect, sampled

ADDITIONS = ["task=arithmetic", "group=8", "engine.max_tokens=160"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="RECIPE | key=value")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--full", action="store_true", help="answers go on to engine.max_tokens")
    chosen = parser.parse_intermixed_args()
    recipe = any(word.endswith(".toml") for word in chosen.words)
    words = chosen.words if recipe else [*ADDITIONS, *chosen.words]
    settings = config.load_config(*config.parse_arguments(words))
    resolved = generation.chosen_for_rollouts(settings, chosen.prompts, print)
    build = loop.Run.build(resolved, print)
    training = settings.training
    if chosen.full:
        assert isinstance(build.engine, LocalEngine)
        if build.engine.settings.generation == "vllm":
            parser.error("--full needs engine.generation=transformers")
        build.engine.policy.stops = set()
    prompts = sampled(build.pool, chosen.prompts, training.seed)
    with (
        tempfile.TemporaryDirectory() as out,
        closing(build.engine) as engine,
        SurveyFolder.open(Path(out), settings.resolved) as folder,
    ):
        started = time.perf_counter()
        with SurveyView(Console(stderr=True), len(prompts) * training.group) as view:
            found = collect(engine, prompts, training.group, training.seed, folder, view)
        spent = time.perf_counter() - started
    tokens = sum(sum(outcome.tokens) for outcome in found)
    rollouts = sum(len(outcome.rewards) for outcome in found)
    print(
        f"{rollouts:,} rollouts, {tokens:,} tokens generated, at most {engine.rows} rollouts at "
        f"once: {spent:.2f} s"
    )


if __name__ == "__main__":
    main()
