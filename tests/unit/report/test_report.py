"""The report as people get it: a page that stands alone, a table, figures, and clear refusals."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from metis.cli import main
from metis.report import charts, subjects, svg
from metis.report.tables import HEADER, MISSING
from metis.report.tables import rows as table
from metis.run.recorded import read_run

VOID = {"meta", "input"}
JUDGE = {
    "judge/reward": 0.8,
    "judge/baseline": 0.7,
    "judge/v_hat_mean": 0.1,
    "judge/v_hat_std": 0.05,
    "judge/failure_rate": 0.0,
    "judge/spread": 0.4,
    "judge/spearman": 0.3,
    "judge/spearman_error": 0.2,
    "judge/lift": 1.5,
    "judge/realised_lift": 0.04,
    "judge/realised_lift_z": 1.6,
    "select/trial": 1.0,
}
BATCH = {
    "batch/advantage": 0.3,
    "batch/reward": 0.4,
    "batch/informative": 0.5,
    "rollout/tokens": 40.0,
    "rollout/wasted": 10.0,
}


class Page(HTMLParser):
    """Refuses tags that do not match; keeps what the tests look at."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.titles, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attributes)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h3":
            self.titles.append(data)
        if "style" not in self.open:
            self.words.append(data)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make(tmp_path):
    def folder(name="run", steps=3, done=3, extra=None, engine="local", every=1, **config):
        path = tmp_path / name
        path.mkdir()
        settings = {"seed": 0, "steps": steps, "engine": {"name": engine}}
        settings |= {"curriculum": {"name": "metis"}, **config}
        (path / "config.json").write_text(json.dumps(settings))
        metrics = [{"step": 0, "eval/accuracy": 0.25, "eval/stderr": 0.02}]
        timings = []
        for step in range(1, done + 1):
            row = {"step": step, **BATCH, **(JUDGE if extra is None else extra)}
            if step % every == 0:
                row |= {"eval/accuracy": 0.25 + step / 100, "eval/stderr": 0.02}
            metrics.append(row)
            phases = {"rollout": 2.0} | ({"judge": 1.0} if extra is None else {})
            timings.append({"step": step, **phases, "elapsed": step * sum(phases.values())})
        logs = {"metrics": metrics, "timings": timings, **(judged(done) if extra is None else {})}
        for log, rows in logs.items():
            (path / f"{log}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return folder


def judged(steps):
    """Logs of a uniform and a chosen group a step."""
    groups = [(step, reason) for step in range(1, steps + 1) for reason in ("trial", "top")]
    judgments = [
        {"step": step, "prompt": reason, "chosen": True, "reason": reason, "score": 0.1}
        for step, reason in groups
    ]
    rollouts = [
        {"step": step, "prompt": name, "category": name, "rewards": [0.0, 1.0]}
        for step, name in groups
    ]
    return {"judgments": judgments, "rollouts": rollouts}


def report(*arguments):
    return main(["report", *map(str, arguments)])


def shown(path):
    text = (path / "report.html").read_text()
    assert "http://" not in text and "https://" not in text
    return Page(text)


def test_one_run_gets_its_report_in_its_own_folder(make, capsys):
    run = make()
    assert report(run) == 0
    page = shown(run)
    assert "script" not in page.tags and "img" not in page.tags
    assert len(page.titles) == len(charts.NAMES)
    assert page.tags.count("svg") == 19
    words = " ".join(page.words)
    assert "0.250 → 0.280 ±\u00a00.020" in words and "33.3%" in words and "50.0%" in words
    assert "Simulated" not in words and "Unfinished" not in words
    assert "the judge chose the batch alone in 0 of 3 steps, half of it in 3" in words
    assert "batch/reward (reward): Mean reward" in words, "what a pointer on the axis shows"
    text, printed = (run / "report.md").read_text(), capsys.readouterr().out
    assert text.startswith("**Did it learn?** No change shown") and "Did it learn?" in printed
    *_, table = text.split("\n\n")
    assert table in printed
    assert [line.count("|") for line in table.splitlines()] == [12, 12, 12]
    assert re.search(r"\| 0.280 ±\s0.020 +\| 9\ss", table)


def test_the_same_runs_give_the_same_bytes(make):
    run = make()
    report(run)
    first = (run / "report.html").read_bytes()
    report(run)
    assert (run / "report.html").read_bytes() == first
    assert not list(run.rglob("*.draft"))


def test_figures_without_data_are_left_out(make):
    run = make(extra={})
    assert report(run) == 0
    page = shown(run)
    assert page.titles == [
        "Held-out accuracy",
        "Learning signal",
        "Competence frontier",
        "Waste",
        "Time and overhead",
    ]
    assert "Time spent judging" not in " ".join(page.words), (
        "nothing was judged, and no candidate read"
    )


def test_time_of_reading_candidates_is_named_where_nothing_is_judged(make):
    run = make(extra={})
    path = run / "timings.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row |= {"rollout": 1.5, "select": 0.5}
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert report(run) == 0
    assert "reading candidates took 25.0%" in " ".join(shown(run).words)


def test_where_all_problems_score_alike_that_is_said_in_place_of_an_error(make):
    run = make(extra={})
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        if row.pop("eval/stderr", None):
            row["eval/accuracy"] = 0.0
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert report(run) == 0
    words = " ".join(shown(run).words)
    assert "0.000 → 0.000" in words and "standard error" not in words.split("Figures")[0]
    step = max(row["step"] for row in rows)
    tested = [{"step": step, "prompt": f"p{n}", "reward": 0.0} for n in range(30)]
    (run / "evals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in tested))
    assert report(run) == 0
    assert "each of the 30 problems scored 0" in " ".join(shown(run).words)


def test_several_runs_share_a_page(make, elsewhere):
    runs = [make("a"), make("b", seed=1), make("c", extra={}, curriculum={"name": "uniform"})]
    assert report(*runs) == 0
    words = " ".join(shown(elsewhere / "report").words)
    for label in ("metis · seed 0", "metis · seed 1", "uniform · seed 0"):
        assert label in words
    assert not (runs[0] / "report.html").exists()
    assert report(*runs, "--out", "elsewhere/deep") == 0
    assert (elsewhere / "elsewhere/deep/report.md").exists()


def test_accuracies_of_runs_that_are_validated_otherwise_are_drawn_apart(make, elsewhere):
    runs = [make("a"), make("b", seed=1), make("c", seed=2)]
    for run, most in zip(runs, (64, 64, 128), strict=True):
        config = json.loads((run / "config.json").read_text())
        config["engine"]["max_tokens"] = most
        (run / "config.json").write_text(json.dumps(config))
    figure = charts.accuracy_figure(subjects.each([read_run(run) for run in runs]))
    drawn = [[line.colour for line in panel.lines] for panel in figure.panels]
    assert drawn == [[0, 1], [2]], "over steps alone"
    assert report(*runs) == 0
    words = " ".join(shown(elsewhere / "report").words)
    assert "Held-out accuracy is not compared." in words
    assert "metis · seed 2: validated otherwise than metis · seed 0" in words
    assert "engine.max_tokens = 128, not 64" in words
    assert report(*runs[:2]) == 0
    assert "not compared" not in " ".join(shown(elsewhere / "report").words)
    assert "elapsed" in (elsewhere / "report/figures/accuracy.svg").read_text()


def test_settings_with_one_seed_each_are_called_so(make, elsewhere):
    caution = "One seed for each setting: small differences may be chance."
    judges = [{"name": "metis", "judge": {"name": name}} for name in ("direct", "reason")]
    runs = [make(f"run{i}", curriculum=judge) for i, judge in enumerate(judges)]
    assert report(*runs) == 0
    assert caution in " ".join(shown(elsewhere / "report").words)
    assert report(*runs, make("again", seed=1, curriculum=judges[0])) == 0
    assert caution not in " ".join(shown(elsewhere / "report").words)


def test_more_runs_than_colours_stay_apart(make):
    runs = [make(f"run{seed}", seed=seed) for seed in range(svg.COLOURS + 1)]
    assert report(*runs, "--out", "all") == 0
    assert svg.run_class(svg.COLOURS) == "c0 again"


def test_simulated_and_unfinished_runs_say_so(make):
    run = make(engine="simulated", steps=10)
    assert report(run) == 0
    words = " ".join(shown(run).words)
    assert "not a language model" in words and "3 of 10" in words and "simulated seconds" in words


@pytest.mark.parametrize("done", [0, 1])
def test_a_run_with_one_evaluation_is_a_dot(make, done):
    run = make(done=done, every=5)
    assert report(run) == 0
    page = shown(run)
    assert "the only validation" in " ".join(page.words)
    assert "circle" in page.tags


def test_a_test_after_training_is_not_one_before_it(make):
    run = make()
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text(lines[-1])
    assert report(run) == 0
    (row,) = table([read_run(run)])
    found = dict(zip(HEADER, row, strict=True))
    assert found["held-out accuracy before"] == MISSING
    assert found["held-out accuracy after"].startswith("0.280")


def test_a_run_that_has_not_begun_has_a_page(make):
    run = make(done=0)
    (run / "metrics.jsonl").write_text("")
    assert report(run) == 0
    assert "Nothing has been recorded yet." in " ".join(shown(run).words)


def test_without_timings_accuracy_is_drawn_against_steps_only(make):
    run = make()
    (run / "timings.jsonl").unlink()
    assert report(run) == 0
    page = shown(run)
    assert "Time and overhead" not in page.titles and "no timings recorded" in page.words


def test_hostile_names_stay_text(make):
    hostile = "<script>alert('x')</script>|$\\alpha$ & \""
    runs = [make("_<b>", curriculum={"name": hostile}), make("c", seed=hostile)]
    assert report(*runs, "--out", "out") == 0
    page = shown(runs[0].parent / "out")
    assert "script" not in page.tags and "b" not in page.tags
    assert any(hostile in word for word in page.words)
    table = (runs[0].parent / "out" / "report.md").read_text()
    assert "\\|" in table and len(table.splitlines()) == 4


def test_pictures_are_drawn_and_those_of_an_earlier_report_dropped(make):
    run = make()
    assert report(run) == 0
    folder = run / "figures"
    assert sorted(path.stem for path in folder.iterdir()) == sorted(charts.NAMES)
    for path in folder.iterdir():
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    other = make("other", extra={})
    assert report(other, "--out", run) == 0
    assert not (folder / "skill.svg").exists() and (folder / "frontier.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no such folder"),
        (["run/config.json"], "a file: name a run folder"),
        (["."], "has no config.json"),
        ([], "RUN"),
        (["run", "--out", "run/config.json"], "is a file: name a folder"),
        (["run", "--nonsense"], "--nonsense"),
    ],
)
def test_mistakes_are_one_line(make, capsys, arguments, words):
    make()
    assert report(*arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and words in lines[0]


@pytest.mark.parametrize(
    "values",
    [[0.0], [1e-9], [0.5, 0.5], [-0.1, 0.3], [0.9, 3.1], [0.0, 1e6], [0.401, 0.402], [-5.0]],
)
def test_axes_cover_their_values_with_a_readable_number_of_ticks(values):
    low, high = svg.bounds(values)
    marks = svg.ticks(low, high)
    assert low <= min(values) and max(values) <= high
    assert 3 <= len(marks) <= 8
    assert len(set(svg.written(marks))) == len(marks)


def test_steps_have_whole_ticks():
    assert svg.ticks(0, 1, whole=True) == [0, 1]
    assert svg.ticks(0, 13, whole=True) == [0, 3, 6, 9, 12]


def test_reports_need_no_engine():
    program = (
        "import sys, metis.report; "
        "print(*(m for m in sys.modules if m.startswith(('torch', 'metis.engines'))))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == ""
