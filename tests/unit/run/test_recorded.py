"""Run folders as series: what is read, what is worked out, what is refused."""

import json
from pathlib import Path

import pytest

from metis.errors import MetisError
from metis.run.recorded import Series, read_run, read_runs


@pytest.fixture
def make(tmp_path):
    def folder(name="run", metrics=(), timings=(), **config):
        path = tmp_path / name
        path.mkdir(parents=True)
        settings = {"seed": 0, "steps": 2, "curriculum": {"name": "metis"}, **config}
        (path / "config.json").write_text(json.dumps(settings))
        for log, rows in (("metrics", metrics), ("timings", timings)):
            (path / f"{log}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return folder


METRICS = [
    {"schema": 1, "step": 0, "eval/accuracy": 0.25, "eval/stderr": 0.05},
    {"schema": 1, "step": 1, "batch/informative": 0.5, "total/rollout_generated": 8},
    {"schema": 1, "step": 2, "batch/informative": 1.0, "eval/accuracy": 0.5},
]
TIMINGS = [
    {"schema": 1, "step": 1, "rollout": 3.0, "judge": 1.0, "elapsed": 4.0},
    {"schema": 1, "step": 2, "rollout": 1.0, "judge": 2.0, "packing": 1.0, "elapsed": 10.0},
]


def test_evaluations_are_joined_with_the_clock_by_step(make):
    first, last = read_run(make(metrics=METRICS, timings=TIMINGS)).evaluations
    assert first == (0, 0.0, 0.25, 0.05)
    assert last == (2, 10.0, 0.5, None)


def test_an_evaluation_whose_timing_was_not_written_has_no_time(make):
    run = read_run(make(metrics=METRICS, timings=TIMINGS[:1]))
    assert [test.elapsed for test in run.evaluations] == [0.0, None]


def test_series_leave_out_steps_without_the_metric_and_values_that_are_no_numbers(make):
    rows = [*METRICS, {"step": 3, "batch/informative": float("nan")}, {"step": 4}]
    assert read_run(make(metrics=rows)).series("batch/informative") == Series(
        (1.0, 2.0), (0.5, 1.0)
    )


def test_phases_add_up_to_the_time_that_passed(make):
    run = read_run(make(metrics=METRICS, timings=TIMINGS))
    assert run.phases == {"judge": 3.0, "rollout": 4.0, "packing": 1.0, "other": 2.0}
    assert run.judge_share == pytest.approx(0.3)
    assert run.judge_shares() == Series((1.0, 2.0), (0.25, 0.5))
    assert run.informative == 0.75
    assert run.rollouts == 8


@pytest.mark.parametrize(("metric", "tried"), [("select/trial", 3), ("select/guarded", 0)])
def test_steps_on_trial_or_guarded_are_not_the_judges_choice_alone(make, metric, tried):
    """The guard of earlier runs left the judge no part of the batch."""
    values = [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    run = read_run(make(metrics=[{"step": i + 1, metric: value} for i, value in enumerate(values)]))
    assert (run.selected, run.tried) == (3, tried)
    assert run.trials == ([(0.5, 2.5), (3.5, 4.5)] if tried else [])


def test_a_run_that_has_not_begun_has_nothing_but_settings(make):
    run = read_run(make())
    assert (run.steps, run.planned, run.evaluations, run.phases) == (0, 2, [], {})
    assert run.judge_share is None and run.informative is None and run.rollouts is None


def test_names_are_found_at_the_top_and_in_the_engine(make):
    run = read_run(make(engine={"name": "local", "model": "tiny"}, task="arithmetic"))
    assert [run.named(key) for key in ("engine", "model", "task", "suite")] == [
        "local",
        "tiny",
        "arithmetic",
        "",
    ]


def test_labels_get_as_many_folders_as_tell_them_apart(make):
    folders = [make("a/x"), make("a/y"), make("b/y"), make("c", seed=1)]
    labels = [run.label for run in read_runs([*folders, folders[0]])]
    assert labels == [
        "metis · seed 0 · x",
        "metis · seed 0 · a/y",
        "metis · seed 0 · b/y",
        "metis · seed 1",
    ]


def break_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def break_versions(folder: Path) -> None:
    (folder / "versions.json").write_text("[]")


def break_metrics(folder: Path) -> None:
    (folder / "metrics.jsonl").write_bytes(b'{"step": 0}\n{"ste\n')


def break_timings(folder: Path) -> None:
    (folder / "timings.jsonl").write_text('{"elapsed": 1.0}\n')


def lose_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def lose_metrics(folder: Path) -> None:
    (folder / "metrics.jsonl").unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (break_config, "config.json' is damaged"),
        (break_versions, "versions.json' is damaged"),
        (break_metrics, "metrics.jsonl, line 2, is damaged: restore the file"),
        (break_timings, "timings.jsonl, line 1, is damaged"),
        (lose_config, "has no config.json"),
        (lose_metrics, "has no metrics.jsonl"),
    ],
)
def test_damage_is_one_clear_line(make, damage, words):
    folder = make(metrics=METRICS, timings=TIMINGS)
    damage(folder)
    with pytest.raises(MetisError, match=words) as error:
        read_run(folder)
    assert "\n" not in str(error.value)


def test_a_folder_without_timings_or_versions_is_still_a_run(make):
    folder = make(metrics=METRICS)
    (folder / "timings.jsonl").unlink()
    assert [test.elapsed for test in read_run(folder).evaluations] == [0.0, None]
