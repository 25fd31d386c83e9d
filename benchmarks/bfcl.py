"""Function-calling episodes per second on two cores, against the official executor of bfcl-eval.

    python benchmarks/bfcl.py [--rounds 3] [--steps 50000]

A scripted policy replays every ground truth of the five multi-turn categories, one reply for each
user turn and one in words after it. Ours is the whole episode: the text is parsed, the calls are
made, results are written as messages, the ground truth is played beside it and compared. The
official executor makes the same two sets of calls and does nothing else; its checker compares too,
and makes all calls again. Both sides get two processes, warm.

Then calls are made on worlds that come and go: the memory that is held, and its slope.
"""

import argparse
import gc
import importlib
import multiprocessing
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np

from metis.prepare import bfcl_sets
from metis.tasks.bfcl import package
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.episode import Episode

CORES = 2
CHUNK = 25
BOUND = 16.0
"""Bytes a step by which the memory that is held may grow."""


def ours(dialogue: Dialogue) -> bool:
    """An episode from its first message to its reward."""
    episode = Episode(dialogue)
    for turn in dialogue.truth:
        if turn:
            episode.reply(f"[{', '.join(turn)}]")
        episode.reply("That is done.")
    return episode.reward()["official"] == 1.0


def executed(dialogue: Dialogue) -> bool:
    """The policy's calls and the ground truth's, by the official executor."""
    utils, _ = official()
    for player in ("policy", "truth"):
        for turn in filter(None, dialogue.truth):
            utils.execute_multi_turn_func_call(
                list(turn),
                dict(dialogue.scenario),
                list(dialogue.names),
                player,
                dialogue.id,
                long_context=dialogue.category in ("long_context", "composite"),
            )
    _forget(utils)
    return True


def checked(dialogue: Dialogue) -> bool:
    """The policy's calls by the official executor as they come, and the checker in the end."""
    utils, checker = official()
    turns = [[list(turn)] if turn else [] for turn in dialogue.truth]
    entry = {
        "id": f"multi_turn_{dialogue.category}_0",
        "initial_config": dict(dialogue.scenario),
        "involved_classes": list(dialogue.names),
    }
    for steps in turns:
        for step in steps:
            utils.execute_multi_turn_func_call(
                step,
                entry["initial_config"],
                entry["involved_classes"],
                "policy",
                entry["id"],
                long_context=dialogue.category in ("long_context", "composite"),
            )
    truth = [list(turn) for turn in dialogue.truth]
    verdict = checker.multi_turn_checker(turns, truth, entry, dialogue.category, "checked")
    _forget(utils)
    return bool(verdict["valid"])


SIDES: dict[str, Callable[[Dialogue], bool]] = {
    "ours": ours,
    "official executor": executed,
    "official executor and checker": checked,
}


@cache
def official() -> tuple[Any, Any]:
    """The official executor and checker."""
    package.apis()
    place = str(package.folder())
    sys.path.insert(0, place)
    name = "bfcl_eval.eval_checker.multi_turn_eval"
    try:
        return tuple(
            importlib.import_module(f"{name}.multi_turn_{part}") for part in ("utils", "checker")
        )  # type: ignore[return-value]
    finally:
        sys.path.remove(place)


def _forget(utils: Any) -> None:
    """Take its instances away, which it keeps for ever."""
    for name in [name for name in vars(utils) if name.endswith("_instance")]:
        delattr(utils, name)


def measure(dialogues: Sequence[Dialogue], rounds: int) -> dict[str, tuple[float, float]]:
    """Of each side: episodes per second, the best of some rounds, and the share that was right.

    The sides take turns, so that what else the machine does slows all of them.
    """
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        pools = {name: stack.enter_context(spawn.Pool(CORES)) for name in SIDES}
        right = {name: pools[name].map(play, dialogues, CHUNK) for name, play in SIDES.items()}
        seconds: dict[str, list[float]] = {name: [] for name in SIDES}
        for _ in range(rounds):
            for name, play in SIDES.items():
                start = time.perf_counter()
                pools[name].map(play, dialogues, CHUNK)
                seconds[name].append(time.perf_counter() - start)
    count = len(dialogues)
    return {name: (count / min(seconds[name]), sum(right[name]) / count) for name in SIDES}


def slope(dialogues: Sequence[Dialogue], steps: int) -> float:
    """Bytes that are held more after a step than before it, by a line through ten looks."""
    tracemalloc.start()
    made, looks = 0, list[tuple[int, int]]()
    while made < steps:
        for dialogue in dialogues:
            world = dialogue.world()
            for call in (call for turn in dialogue.solution for call in turn):
                world.call(call)
                made += 1
            if made >= (len(looks) + 1) * steps / 10:
                del world
                gc.collect()
                looks.append((made, tracemalloc.get_traced_memory()[0]))
    tracemalloc.stop()
    after = np.array(looks[2:], dtype=float)  # ground truths are parsed when they are first called
    return float(np.polyfit(after[:, 0], after[:, 1], 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50_000)
    chosen = parser.parse_args()
    dialogues = [each for part in bfcl_sets.every("rebuilt").values() for each in part]
    print(f"{len(dialogues)} episodes on {CORES} cores")
    measured = measure(dialogues, chosen.rounds)
    speeds = {name: speed for name, (speed, _) in measured.items()}
    for name, (speed, right) in measured.items():
        ratio = f": ratio {speeds['ours'] / speed:.2f}" if name != "ours" else ""
        print(f"  {name:<30} {speed:7,.0f} episodes/s, {right:.0%} right{ratio}")
    grown = slope(dialogues, chosen.steps)
    print(f"{chosen.steps:,} steps: {grown:+.2f} bytes held a step, bound {BOUND:g}")
    if grown > BOUND or speeds["ours"] < speeds["official executor"]:
        sys.exit("a bound is missed")


if __name__ == "__main__":
    main()
