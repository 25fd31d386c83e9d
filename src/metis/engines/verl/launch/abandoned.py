"""The best checkpoint of an attempt that was abandoned: set aside, under the name of its step."""

import itertools
from pathlib import Path

from metis.core import state
from metis.engines.verl.launch import retention
from metis.engines.verl.launch.resumable import STATE
from metis.errors import MetisError
from metis.run.budget import Account


def set_best_aside(folder: Path, account: Account) -> str | None:
    """Rename `best` where it is not the best one of this account; a sentence about that.

    One that is older than the step of the account stays where that step tested best: the run was
    stopped before it was kept, and its test is made again.
    """
    best = folder / retention.BEST
    own = _tested(best)
    if own is None or own == account.best or (account.improved and own[0] < account.step):
        return None
    kept = _free(best.with_name(f"{retention.BEST}-of-step-{own[0]}"))
    best.rename(kept)
    so_far = f"step {account.best[0]}" if account.best[0] else "none yet"
    return (
        f"{best} was of step {own[0]}, and the best step of this attempt is {so_far}: it was "
        f"renamed to {kept.name}"
    )


def _tested(best: Path) -> tuple[int, float] | None:
    """Step and accuracy of a checkpoint that tested best, where it can be read."""
    try:
        step, accuracy = state.load(best / STATE)["best"]
    except (MetisError, OSError, KeyError):
        return None
    return int(step), float(accuracy)


def _free(path: Path) -> Path:
    """This name, or with the first number that nothing has."""
    names = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([path], names) if not name.exists())
