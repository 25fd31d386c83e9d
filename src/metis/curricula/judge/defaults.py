"""Settings of METIS that depend on its judge, where nothing is written."""

from metis.curricula.judge.settings import Judge


def by_judge(judge: Judge, batch: int) -> dict[str, int]:
    """The defaults with this judge.

    A readout has no trial, as cross-validation shrinks what predicts nothing, and no exemplars,
    which change with the steps and would move the states that it compares.
    """
    alone = judge.mode == "readout"
    return {
        "examples": 0 if alone else 3,
        "warmup": judge.mode == "reason",
        "replay": max(64, batch),
        "trial": 0 if alone else 16,
    }
