"""The table of what a run writes down: complete, without dead entries, and held by every test."""

import ast
import re
from pathlib import Path

import pytest

import metis
from metis.cli import main
from metis.engines.simulated import SimulatedEngine
from metis.report.charts import PER_STEP
from metis.report.tables import HEADER
from metis.run.folder import LOGS, RunFolder
from metis.run.metrics import glossary, logs, metric_entry, metric_sections, reason, unexplained
from metis.view.history import StepHistory
from metis.view.terminal import SHOWN

SOURCE = Path(metis.__file__).parent
READERS = ("report", "view")
ENTRIES = [entry for section in metric_sections() for entry in section.metrics]


def written():
    """Patterns of all names that the sources, readers aside, may write."""
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in READERS:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                pieces = [re.escape(p.value) if is_text(p) else ".+" for p in node.values]
                pattern = "".join(pieces).removeprefix("metis/")
                if re.search(r"\w+/|/\w+", pattern):
                    yield re.compile(pattern)
            elif is_text(node) and re.fullmatch(r"[a-z_]+/[a-z_/]+", node.value):
                yield re.compile(re.escape(node.value.removeprefix("metis/")))


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_every_entry_is_written_by_someone():
    names, patterns = {entry.name for entry in ENTRIES}, list(written())
    assert len(names) == len(ENTRIES)
    by_verl = {name for name in names if name.startswith("actor/")} - {"actor/judge_loss"}
    for name in names - by_verl:
        example = re.sub("<.*?>", "x", name)
        assert any(pattern.fullmatch(example) for pattern in patterns), f"nobody writes {name}"
    assert not any(pattern.fullmatch("batch/rewrad") for pattern in patterns)


def test_an_entry_says_what_it_is():
    for entry in ENTRIES:
        assert entry.unit and entry.by and entry.meaning.endswith(".")
        assert metric_entry(re.sub("<value>", "0.25", entry.name)) or "<" in entry.name
    for log in logs():
        assert log.about.endswith(".") and all(field.meaning for field in log.fields)
    assert [log.name for log in logs()] == [f"{log}.jsonl" for log in LOGS]


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("total/rollout_tokens", "total/<counter>"),
        ("total/rollout_tokns", None),
        ("eval/accuracy", "eval/accuracy"),
        ("eval/accuracy/math500", "eval/accuracy/<benchmark>"),
        ("judge/failure_no_box", "judge/failure_<kind>"),
        ("judge/failure_rate", "judge/failure_rate"),
        ("judge/failure_other", None),
        ("judge/reliability_0.25", "judge/reliability_<value>"),
        ("select/arm_12_chance", "select/arm_<arm>_chance"),
        ("select/arm_x_chance", None),
        ("select/keep_easy", "select/keep_<type>"),
        ("reward/length", "reward/<name>"),
        ("reward/", None),
        ("batch/rewards", None),
    ],
)
def test_a_metric_is_found_by_its_name(name, entry):
    found = metric_entry(name)
    assert (found and found.name) == entry


def test_fields_and_reasons_are_found():
    assert unexplained("timings", ["schema", "step", "judge", "elapsed"]) == []
    assert unexplained("timings", ["batch/reward", "nap"]) == ["batch/reward", "nap"]
    assert unexplained("metrics", ["step", "batch/reward", "judge"]) == ["judge"]
    assert reason("arm level-2") and reason("stage 3") and not reason("stage x")


def test_words_of_the_terminal_and_of_the_report_are_in_the_table():
    known = {word for row in glossary() for word in row.split(", ")}
    history = StepHistory(latest={"judge/reward": 1.0, "select/trial": 1.0})
    shown = {*SHOWN, history.judge, "selecting", "explore", "trial"}
    columns = set(HEADER) - {"run", "engine", "steps", "rollouts"}
    assert shown | columns <= known
    for figure in PER_STEP:
        assert all(metric_entry(drawn.name) for drawn in figure.metrics)


def test_a_row_that_nothing_explains_fails_the_test_that_writes_it(tmp_path):
    with RunFolder.open(tmp_path / "run", {"schema": 1}) as folder:
        folder.append("metrics", [{"step": 1, "batch/reward": 0.5}])
        folder.append("judgments", [{"step": 1, "reason": "top"}])
        for log, row in (
            ("metrics", {"batch/rewrad": 0.5}),
            ("timings", {"nap": 1.0}),
            ("judgments", {"reason": "a whim"}),
        ):
            with pytest.raises(AssertionError, match="in no table"):
                folder.append(log, [{"step": 2, **row}])


def test_so_does_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(SimulatedEngine, "update", lambda self, batch: {"update/whim": 1.0})
    with pytest.raises(AssertionError, match="update/whim"):
        main(["train", "engine=simulated", "batch=4", "steps=1", "--out", str(tmp_path / "run")])
