"""Finished runs of a comparison: those whose own logs reach the end of their budgets."""

from collections import Counter
from dataclasses import fields
from pathlib import Path

from metis.comparisons.plan import ComparisonPlan
from metis.errors import Damaged, MetisError
from metis.run.budget import Account, Budget
from metis.run.folder import log_file
from metis.run.recorded import Recorded, is_number, read_run


def look(folder: Path) -> tuple[Recorded | None, str]:
    """A run whose log has reached the end of its budget; otherwise None and the reason."""
    if not _begun(folder):
        return None, "not begun"
    try:
        run = read_run(folder)
        spent = account(run).fraction
    except Damaged as error:
        return None, f"damaged: {error.what}"
    except MetisError as error:
        return None, f"left out: {error}"
    if spent >= 1:
        return run, ""
    whole = f"of {run.planned:,}" if run.config.get("steps") else f"with {spent:.0%} of its budget"
    return None, f"not finished: its log ends at step {run.steps:,} {whole}"


def settled(plan: ComparisonPlan, folder: Path) -> bool:
    """True for a run that needs no training: it has finished, now or earlier.

    One that was noted as finished needs no checkpoint, and is never trained over what is left of
    its log.
    """
    from metis.start import trainer

    if folder.name in plan.finished and _begun(folder):
        return True
    run, _ = look(folder)
    return run is not None and trainer(run.named("engine")).finished(folder, _budget(run))


def _begun(folder: Path) -> bool:
    return log_file(folder, "metrics").exists()


def account(run: Recorded) -> Account:
    """The account of a run, by its log."""
    last = run.metrics[-1] if run.metrics else {}
    counted = {
        key.removeprefix("total/").replace("_", "/", 1): int(value)
        for key, value in last.items()
        if key.startswith("total/") and is_number(value)
    }
    return Account(_budget(run), run.steps, run.elapsed, Counter(counted))


def _budget(run: Recorded) -> Budget:
    limits = {part.name: run.config.get(part.name) or 0 for part in fields(Budget)}
    if not all(is_number(limit) for limit in limits.values()):
        raise Damaged(f"{run.folder}/config.json is damaged: restore it", run.folder, "config.json")
    return Budget(**limits)
