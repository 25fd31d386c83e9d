"""Whole steps of training: METIS with each of its judges, against uniform sampling.

    python benchmarks/whole_step.py RECIPE [key=value ...] [--arms uniform,direct,...]
                                    [--steps 12] [--skip 2] [--out runs/whole-step]

Runs `metis train RECIPE key=value ...` once for each arm, one after the other, and prints the mean
seconds of a step and of its phases after the first steps, which start workers and compile kernels,
and two ratios: `ratio` to a uniform step, whose prompts are others and so are the lengths of their
answers, and `own` to the arm's own step without selection and judging (a readout reads candidates
in selection). The judge has no trial, so that it selects from the second step on. An arm that is
there already, with as many steps, is read, not run again.

arm                   judge
uniform               none
direct                scored, passes out of eight, with the recommended replay
direct-quarter        the same, a quarter of the judgments trained on
direct-quarter-fresh  the same without replay
reason                sampled replies
readout               a regression on hidden states, which trains nothing of the policy

Qwen2.5-1.5B on MATH, 16 prompts of 8 rollouts from 128 candidates, on one H200:

    metis prepare math
    python benchmarks/whole_step.py recipes/math/qwen2.5-1.5b-h200.toml batch=16 engine=verl
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from metis.run import folder as run_folder

JUDGED = ("curriculum=metis", "curriculum.trial=0")
DIRECT = (*JUDGED, "curriculum.judge=direct", "curriculum.judge.scale=passes")
QUARTER = (*DIRECT, "curriculum.judge.train=0.25")
ARMS = {
    "uniform": ("curriculum=uniform",),
    "direct": DIRECT,
    "direct-quarter": QUARTER,
    "direct-quarter-fresh": (*QUARTER, "curriculum.judge.replay=0"),
    "reason": (*JUDGED, "curriculum.judge=reason"),
    "readout": (*JUDGED, "curriculum.judge=readout"),
}
CHOOSING = ("select", "judge")
PHASES = (*CHOOSING, "rollout", "update")


def run(recipe: str, words: list[str], arm: str, steps: int, out: Path) -> None:
    if len(run_folder.read_log(out, "timings", optional=True)) >= steps:
        return
    budget = [f"steps={steps}", "tokens=0", "evaluate=0"]
    command = ["-m", "metis.cli", "train", recipe, *words, *budget, *ARMS[arm], "--out", str(out)]
    if subprocess.run([sys.executable, *command]).returncode:
        raise SystemExit(f"{arm}: metis train failed, as said above; its folder is {out}")


def seconds(out: Path, steps: int, skip: int) -> dict[str, float]:
    """Means over the steps up to `steps` after the first `skip`."""
    rows = run_folder.read_log(out, "timings")[:steps]
    counted = rows[skip:]
    if not counted:
        raise SystemExit(f"{out} has {len(rows)} steps: it needs more than --skip {skip}")
    begun = rows[skip - 1]["elapsed"] if skip else 0.0
    means = {"step": (rows[-1]["elapsed"] - begun) / len(counted)}
    for phase in PHASES:
        means[phase] = statistics.fmean(row.get(phase, 0.0) for row in counted)
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", help="a TOML file, as `metis train` takes it")
    parser.add_argument("words", nargs="*", metavar="key=value", help="settings of all arms")
    parser.add_argument("--arms", default=",".join(ARMS), help="which of them, with commas")
    parser.add_argument("--steps", type=int, default=12, help="of an arm")
    parser.add_argument("--skip", type=int, default=2, help="the first steps, not counted")
    parser.add_argument("--out", type=Path, default=Path("runs/whole-step"), help="one folder each")
    chosen = parser.parse_intermixed_args()
    arms = chosen.arms.split(",")
    if unknown := sorted(set(arms) - set(ARMS)):
        parser.error(f"--arms {unknown[0]}: there are {', '.join(ARMS)}")
    if chosen.steps <= chosen.skip:
        parser.error(f"--steps {chosen.steps}: use more than --skip {chosen.skip}")
    for arm in arms:
        run(chosen.recipe, chosen.words, arm, chosen.steps, chosen.out / arm)
    means = {arm: seconds(chosen.out / arm, chosen.steps, chosen.skip) for arm in arms}
    print(f"{'arm':22}" + "".join(f"{name:>10}" for name in ("step", *PHASES, "ratio", "own")))
    for arm, spent in means.items():
        cells = "".join(f"{spent[name]:10.2f}" for name in ("step", *PHASES))
        ratio = spent["step"] / means["uniform"]["step"] if "uniform" in means else float("nan")
        own = spent["step"] / (spent["step"] - sum(spent[name] for name in CHOOSING))
        print(f"{arm:22}{cells}{ratio:10.2f}{own:10.2f}")


if __name__ == "__main__":
    main()
