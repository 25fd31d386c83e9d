"""Numbers that README and docs publish are those of the runs in `evidence/`."""

import gzip
import itertools
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from metis.comparisons.ending import look
from metis.comparisons.plan import ComparisonPlan, parse_variants
from metis.config import parse_arguments
from metis.run import folder as run_folder
from metis.run import recorded
from metis.surveys.measured import GAINS, POOLS
from metis.view.browse.index import Index

EVIDENCE = Path(__file__).parents[2] / "evidence"
COSTS = "steps", "rollouts", "total tokens"
RUNS = sorted(path.parent for path in EVIDENCE.rglob("config.json"))


@pytest.fixture
def publish(monkeypatch):
    monkeypatch.syspath_prepend(str(EVIDENCE))
    import publish

    return publish


def test_no_published_table_or_figure_is_stale():
    checked = subprocess.run(
        [sys.executable, EVIDENCE / "publish.py", "--check"], capture_output=True, text=True
    )
    assert not checked.returncode, f"python evidence/publish.py\n{checked.stdout}{checked.stderr}"


def test_a_step_on_verl_is_estimated_within_a_half_of_every_run(publish):
    compared = list(publish.scale_tables.compared())
    assert len(compared) == 12
    for run, measured, estimated in compared:
        for was, said in zip(measured, estimated, strict=True):
            assert was / 1.5 < said < was * 1.5, run


def test_surveys_know_the_measured_pools(publish):
    axes = [publish.when_it_pays.AXES[place] for place in (0, 1, 3)]
    assert len(POOLS) == len(publish.pools())
    for known, pool in zip(POOLS, publish.pools(), strict=True):
        assert known.informative == round(pool.informative, 3)
        for name, cost in known.costs.items():
            assert cost == tuple(round(pool.costs[name][axis].value, 2) for axis in axes)


def test_surveys_predict_from_every_training_set_that_a_cost_can_be_read_from(publish):
    read = [each for each in publish.survey_table.seen(EVIDENCE) if not each.unread]
    assert len(GAINS) == len(read)
    for gain, each in zip(GAINS, read, strict=True):
        assert gain.name == each.name
        assert gain.informative == pytest.approx(each.informative, abs=6e-4)
        assert gain.cost == tuple(round(each.cost(axis).value, 2) for axis in COSTS)


def test_variants_are_compared_over_all_their_runs_and_problems(publish, tmp_path):
    def lines(rows):
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    def run(name, accuracy):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        tests = [
            {"step": step, "prompt": prompt, "reward": reward}
            for step, rewards in ((0, (1.0, 0.0)), (2, (0.0, 2 * accuracy)))
            for prompt, reward in zip("ab", rewards, strict=True)
        ]
        rows = [{"step": 0, "eval/accuracy": 0.5}, {"step": 2, "eval/accuracy": accuracy}]
        (folder / "metrics.jsonl").write_text(lines(rows))
        (folder / "evals.jsonl").write_text(lines(tests))

    runs = {"uniform-0": 0.1, "uniform-1": 0.3, "probe-1": 0.4, "probe-2": 0.4, "readout-0": 0.2}
    for name, accuracy in runs.items():
        run(name, accuracy)
    answers = {"before": [0, 0], "uniform-0": [0, 1], "probe-1": [1, 1]}
    with gzip.open(tmp_path / "math500.jsonl.gz", "wt") as file:
        file.write(lines({"run": r, "problem": "a", "scores": s} for r, s in answers.items()))
    *_, probe, _, before = publish.training_tables.results(tmp_path).splitlines()
    cells = [cell.strip() for cell in probe.split("|")[1:-1]]
    assert cells[0] == "`probe`" and cells[3] == "+10.0% [+0.0%, +30.0%]"
    assert cells[4:] == ["40.0%, 40.0%", "+20.0% [+0.0%, +60.0%]", "100.0%", "+50.0%"]
    cells = [cell.strip() for cell in before.split("|")[1:-1]]
    assert cells[0] == "before" and cells[4:] == ["50.0%", "+30.0%", "0.0%", "-50.0%"]
    run("readout-first-0", 0.4)
    readout = publish.training_tables.at_once(tmp_path).splitlines()[-1]
    cells = [cell.strip() for cell in readout.split("|")[1:-1]]
    assert cells[:3] == ["`readout`", "20.0%, 40.0%", "30.0%"]
    assert cells[3:5] == ["+10.0% [-10.0%, +40.0%]", "0.67 (2 v 2: at least 0.33)"]
    assert cells[5:] == ["-10.0% [-40.0%, +0.0%]", "1.00 (2 v 2: at least 0.33)"]
    rows = publish.training_tables.by_test(tmp_path).splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert cells[0] == ["", "step 2"] and cells[2] == ["readout", "20.0%, 40.0%"]
    assert cells[-2] == ["readout minus uniform sampling, points", "+10.0, p = 0.67"]
    assert cells[-1] == ["readout minus the probe, points", "-10.0, p = 1.00"]


def test_an_incomplete_item_is_averaged_over_the_seeds_of_all_and_concludes_nothing(
    publish, tmp_path
):
    def run(name, *accuracies):
        folder = tmp_path / "additions" / "pool" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"steps": 120}')
        tests = ((0, 0.1), (60, accuracies[0]), (115, accuracies[1]), (120, accuracies[2]))
        rows = [
            {
                **{"step": step, "eval/accuracy": accuracy, "batch/informative": 0.25},
                **{
                    f"total/rollout_{each}": 10.0 * step
                    for each in ("generated", "tokens", "processed")
                },
            }
            for step, accuracy in tests
        ]
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    run("uniform-6", 0.1, 0.2, 0.3)
    run("uniform-7", 0.7, 0.8, 0.9)
    run("readout-6", 0.4, 0.5, 0.6)
    tables = publish.replication_tables
    uniform, readout = (
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in tables.additions(tmp_path / "additions" / "pool").splitlines()[2:]
    )
    assert uniform[:5] == ["uniform", "2", "0.200", "–", "–"] and uniform[-3:-1] == ["1", "1"]
    assert readout[1:3] == ["1", "0.500"] and readout[3].startswith("+0.300")
    assert readout[4:7] == ["1.00 (1.00)", "0.500", "25.0%"]
    state = tables.state(tmp_path)
    assert re.search(r"3\. additions.* 96 +\| 3 +\| nothing yet", state)
    assert re.search(r"4\. MATH.* 12 +\| 0 +\| not begun", state)
    (tmp_path / "other/uniform-0").mkdir(parents=True)
    (tmp_path / "other/uniform-0/config.json").write_text("{}")
    with pytest.raises(LookupError, match="no item of the plan has the folder other"):
        tables.state(tmp_path)


def test_a_claim_is_shown_only_where_p_is_small_enough(publish):
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in publish.claims_table.table(EVIDENCE).splitlines()[2:]
    ]
    assert len(rows) > 10
    for *_, p, least, shown in rows:
        smallest = min(map(float, p.split(",")))
        assert smallest >= float(least) and (shown == "yes") == (smallest <= 0.05)


@pytest.mark.parametrize("name", ["simulation", "additions"])
def test_every_variant_of_the_comparison_before_rollouts_can_be_started(publish, name):
    world = publish.before_rollouts.WORLDS[name]
    words = world.command(Path("cmp"))
    said = [value for word, value in itertools.pairwise(words) if word == "--variant"]
    variants = parse_variants(words[words.index("--curricula") + 1], said)
    recipe, settings = parse_arguments(world.settings)
    plan = ComparisonPlan(str(recipe or ""), tuple(settings), tuple(variants), (0,))
    configs = plan.configs()
    assert {"knapsack", "vip", "nemotron", "mapp", "dps", "pools", "dapo"} < configs.keys()
    assert configs["metis-filtered"].resolved["curriculum"]["filter"]["name"] == "dapo"


def test_a_table_is_written_between_its_marks(publish):
    text = "before\n<!-- evidence: levels -->\nold\n<!-- end of evidence -->\nafter\n"
    fresh = publish.fill(text)
    assert "| `metis` " in fresh and "old" not in fresh
    assert fresh.startswith("before\n") and fresh.endswith("\nafter\n")
    assert publish.fill(fresh) == fresh


def test_a_number_that_a_benchmark_does_not_print_is_named(publish):
    with pytest.raises(LookupError, match=r"benchmarks-cpu/step\.txt has no number after 'speed'"):
        publish.cost_tables.printed("cpu/step", "speed")


def test_every_published_run_can_be_reported_compared_and_browsed(monkeypatch, tmp_path):
    monkeypatch.setenv("METIS_HOME", str(tmp_path))
    assert len(RUNS) > 150
    for folder in RUNS:
        finished, why = look(folder)
        run = finished or recorded.read_run(folder)
        assert finished or why.startswith("not finished: its log ends at step"), f"{folder}: {why}"
        assert run.steps and run.timings, folder
        index = Index(folder)
        assert index.update() and not index.wrong
        seen = index.database.rows("SELECT step FROM metrics")
        assert [step for (step,) in seen] == [row["step"] for row in run.metrics]
        index.close()
        steps = {row["step"] for row in run_folder.read_log(folder, "evals", optional=True)}
        assert steps <= {row["step"] for row in run.metrics}, folder


def test_logs_of_published_runs_are_gzipped_without_a_name_or_a_time():
    """The same log makes the same file, and a checkout stays small."""
    for folder in RUNS:
        assert not list(folder.glob("*.jsonl")), f"gzip -9n {folder}/*.jsonl"
        for log in folder.glob("*.jsonl.gz"):
            flags, time = struct.unpack("<3xBL", log.read_bytes()[:8])
            assert (flags, time) == (0, 0), f"gunzip {log}, then gzip -9n {log.with_suffix('')}"
