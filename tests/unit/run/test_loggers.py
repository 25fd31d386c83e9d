"""Loggers: they are handed every step once, survive a resume, and are refused in one line."""

import json
import os
import sys
import types
from dataclasses import replace

import pytest

from metis.cli import main
from metis.core import Batch, Group, Prompt, Transcript
from metis.engines.simulated import SimulatedEngine
from metis.errors import MetisError
from metis.run import loggers
from metis.run.folder import read_log

SHORT = [
    "engine=simulated",
    "engine.prompts=40",
    "steps=4",
    "batch=4",
    "group=2",
    "checkpoints.every=2",
    "evaluate=2",
]


def train(*names, more=()):
    return main(["train", *SHORT, f"loggers={json.dumps(names)}", *more, "--out", "run"])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (*loggers.Wandb.arguments, "TRACKIO_PROJECT", "TENSORBOARD_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


class FakeWandb(types.ModuleType):
    """Takes what wandb takes, and remembers it."""

    def __init__(self):
        super().__init__("wandb")
        self.started, self.rows, self.finished = [], [], 0

    def init(self, **options):
        self.started.append(options)
        return self

    def log(self, metrics, step):
        self.rows.append({"step": step, **metrics})

    def finish(self):
        self.finished += 1


class FakeTrackio(FakeWandb):
    """The same functions, on the module instead of on a run."""

    def init(self, **options):
        assert options.keys() <= {"project", "name", "config", "resume"}
        self.started.append(options)


@pytest.fixture
def wandb(monkeypatch):
    module = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


@pytest.fixture
def trackio(monkeypatch):
    module = FakeTrackio()
    monkeypatch.setitem(sys.modules, "trackio", module)
    return module


def logged(folder):
    """The rows of metrics.jsonl, with those of timings.jsonl under the names that loggers have."""
    rows = {row["step"]: row for row in read_log(folder, "metrics")}
    for row in read_log(folder, "timings"):
        seconds = {key: value for key, value in row.items() if key not in ("schema", "step")}
        rows[row["step"]] |= {f"seconds/{phase}": value for phase, value in seconds.items()}
    return [{key: row[key] for key in row if key != "schema"} for row in rows.values()]


def crash_in_step_4(monkeypatch, *names):
    """Two steps are checkpointed, one more is done, and the next one dies."""
    update = SimulatedEngine.update

    def crash(self, batch):
        if self.version == 3:
            raise ZeroDivisionError
        return update(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedEngine, "update", crash)
        with pytest.raises(ZeroDivisionError):
            train(*names)


def test_every_sink_gets_the_rows_of_the_log(tmp_path, wandb, trackio):
    assert train("wandb", "trackio") == 0
    assert wandb.rows == trackio.rows == logged(tmp_path / "run")
    assert wandb.finished == trackio.finished == 1
    assert {"seconds/rollout", "seconds/elapsed", "total/rollout_tokens"} <= wandb.rows[-1].keys()
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert wandb.started[0]["config"] == trackio.started[0]["config"] == config


HOSTILE = "is it <b>4</b>?\n\n# *no* \x1b[31m |\ud800"
SENT = HOSTILE.replace("\ud800", "?")


@pytest.fixture
def answering(monkeypatch):
    """An engine whose rollouts say something; of each group the first fails."""
    rollout = SimulatedEngine.rollout

    def spoken(self, prompts, n):
        return [replace(group, transcripts=said(group)) for group in rollout(self, prompts, n)]

    def said(group):
        asked = ({"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2"})
        turns = [{"role": "assistant", "content": HOSTILE}]
        failed = Transcript(asked, turns, None, tokens=7, truncated=True, failure="TimeoutError")
        return (failed, *(Transcript(asked, turns, reward) for reward in group.rewards))

    monkeypatch.setattr(SimulatedEngine, "rollout", spoken)


def test_trackio_gets_answers_as_traces(trackio, answering):
    trackio.Trace = lambda messages, metadata: {"messages": messages, "metadata": metadata}
    assert train("trackio", more=["loggers_every=2"]) == 0
    assert [row["step"] for row in trackio.rows if "answers" in row] == [2, 4]
    trace = trackio.rows[2]["answers"][0]
    assert [message["role"] for message in trace["messages"]] == ["system", "user", "assistant"]
    assert trace["messages"][2]["content"] == SENT
    facts = trace["metadata"]
    assert {"prompt", "reason", "predicted"} <= facts.keys() and "reward" not in facts
    assert (facts["step"], facts["truncated"], facts["tokens"]) == (2, True, 7)
    assert facts["failure"] == "TimeoutError"


def test_an_older_trackio_has_metrics_alone(trackio, answering):
    assert train("trackio", more=["loggers_every=1"]) == 0
    assert all("answers" not in row for row in trackio.rows) and len(trackio.rows) == 5


def test_wandb_gets_a_table_of_answers(wandb, answering):
    wandb.Table = lambda columns, data: [dict(zip(columns, row, strict=True)) for row in data]
    assert train("wandb", more=["loggers_every=3"]) == 0
    assert [row["step"] for row in wandb.rows if "answers" in row] == [3]
    table = wandb.rows[3]["answers"]
    assert len(table) == 4 and len({row["id"] for row in table}) == 4
    first = table[0]
    assert (first["prompt"], first["answer"], first["step"]) == ("2 + 2", SENT, 3)
    assert first["truncated"] and first["reward"] is None and first["predicted"] is not None


@pytest.mark.filterwarnings("ignore:html5lib's sanitizer is deprecated:DeprecationWarning")
def test_tensorboard_gets_a_table_in_which_nothing_is_markup(tmp_path, answering):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.text.text_plugin import text_array_to_html
    from tensorboard.util.tensor_util import make_ndarray

    assert train("tensorboard", more=["loggers_every=2"]) == 0
    shown = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    tables = {event.step: make_ndarray(event.tensor_proto) for event in shown.Tensors("answers")}
    assert tables.keys() == {2, 4} and tables[2].shape == (5, len(loggers.COLUMNS))
    assert [cell.decode() for cell in tables[2][0]] == list(loggers.COLUMNS)
    page = text_array_to_html(tables[2], enable_markdown=True)
    assert "is it &lt;b&gt;4&lt;/b&gt;?\n\n# *no* \\x1b[31m |?" in page
    assert page.count("<tr>") == 5


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_answers_are_off_by_one_word(request, name, answering):
    service = request.getfixturevalue(name)
    service.Table = service.Trace = lambda *_, **__: pytest.fail("no answers were wanted")
    assert train(name, more=["loggers_every=0"]) == 0
    assert len(service.rows) == 5 and all("answers" not in row for row in service.rows)


def test_a_sample_is_spread_over_the_batch_and_shows_all_turns():
    turns = [{"role": "assistant", "content": "add"}, {"role": "tool", "content": "4"}]
    said = Transcript([{"role": "user", "content": "2 + 2"}], turns, 0.5)
    groups = [
        Group(Prompt(str(place), ""), (0.5,), transcripts=(said,) if place else ())
        for place in range(25)
    ]
    sample = list(loggers.sampled_answers(3, Batch(groups)))
    assert [int(each.id) for each in sample] == [1, 4, 7, 10, 13, 16, 19, 22]
    row = dict(zip(loggers.COLUMNS, sample[0].row, strict=True))
    assert row["answer"] == "assistant: add\n\ntool: 4" and row["reward"] == 0.5
    assert list(loggers.sampled_answers(3, Batch(groups[:1]))) == []


def test_all_texts_of_an_answer_are_utf_8():
    failed = Transcript((), [{"role": "assistant", "content": "\ud800"}], failure="bad \ud800")
    group = Group(Prompt("\ud800", "", "of \ud800"), (), transcripts=(failed,))
    [shown] = loggers.sampled_answers(1, Batch([group]))
    assert "".join(map(str, shown.row)).encode().count(b"?") == 4


def test_a_sink_named_twice_is_opened_once(tmp_path, wandb):
    assert train("wandb", "wandb") == 0
    assert wandb.finished == len(wandb.started) == 1
    assert wandb.rows == logged(tmp_path / "run")


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_resumed_run_goes_on_in_the_same_place(request, monkeypatch, tmp_path, name):
    service = request.getfixturevalue(name)
    crash_in_step_4(monkeypatch, name)
    assert service.finished == 1
    assert train(name) == 0
    first, second = service.started
    assert first == second and first["resume"] == "allow"
    assert [row["step"] for row in service.rows] == [0, 1, 2, 3, 3, 4]
    rows = {row["step"]: row for row in service.rows}
    assert list(rows.values()) == logged(tmp_path / "run")


def test_a_run_is_named_after_its_folder_and_lies_there(tmp_path, wandb, trackio):
    assert train("wandb", "trackio") == 0
    [init] = wandb.started
    assert (init["project"], init["name"], init["dir"]) == ("metis", "run", str(tmp_path / "run"))
    assert trackio.started[0]["project"] == "metis"
    assert trackio.started[0]["name"] == f"run-{init['id']}"


def test_what_a_service_reads_from_its_variables_is_left_to_it(
    tmp_path, wandb, trackio, monkeypatch
):
    for name in loggers.Wandb.arguments:
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("TRACKIO_PROJECT", "theirs")
    assert train("wandb", "trackio") == 0
    assert wandb.started[0].keys() == {"config", "allow_val_change"}
    assert trackio.started[0]["project"] == "theirs"


def test_an_empty_variable_is_none(tmp_path, wandb, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "")
    assert train("wandb") == 0
    assert wandb.started[0]["project"] == "metis"


def test_names_need_no_brackets(tmp_path, wandb, trackio):
    assert main(["train", *SHORT, "loggers=wandb,trackio", "--out", "run"]) == 0
    assert len(wandb.started) == len(trackio.started) == 1


def test_a_program_that_opens_loggers_itself_is_led_to_the_run_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_NAME", "mine")
    found = loggers.run_variables(["console", "wandb", "tensorboard"], tmp_path)
    assert found == {
        "WANDB_PROJECT": "metis",
        "WANDB_DIR": str(tmp_path),
        "WANDB_RESUME": "allow",
        "WANDB_RUN_ID": (tmp_path / "sinks.id").read_text().strip(),
        "TENSORBOARD_DIR": str(tmp_path / "tensorboard"),
    }
    assert loggers.run_variables(["console", "trackio"], tmp_path) == {}
    assert loggers.project_and_run(["wandb"], tmp_path) == ("metis", "mine")
    assert loggers.project_and_run(["tensorboard"], tmp_path) == ("metis", tmp_path.name)


def test_a_name_is_on_disk_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            loggers.run_variables(["wandb"], tmp_path)
    assert not list(tmp_path.iterdir())
    assert loggers.run_variables(["wandb"], tmp_path) == loggers.run_variables(["wandb"], tmp_path)


def test_two_folders_of_one_name_are_two_runs(tmp_path, wandb):
    places = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    for place in places:
        place.mkdir(parents=True)
        with loggers.opened_loggers(["wandb"], place, {}):
            pass
    first, second = wandb.started
    assert first["name"] == second["name"] == "run"
    assert first["id"] != second["id"]


def refused(capsys, *words):
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("metis: loggers = ")
    for word in words:
        assert word in lines[0]


def test_an_unknown_sink_is_refused_before_anything_is_made(capsys, tmp_path):
    assert train("mlflow") == 2
    refused(capsys, "'mlflow'", "tensorboard, wandb, trackio")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", loggers.LOGGERS)
def test_a_missing_package_is_named_with_its_remedy(capsys, monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, name, None)
    assert train(name) == 2
    refused(capsys, f"{name!r}", f"pip install {name}")
    assert list(tmp_path.iterdir()) == []


def test_a_service_that_refuses_is_one_line_and_closes_the_others(capsys, wandb, trackio):
    def refuse(**_):
        raise RuntimeError("No API key\nconfigured.")

    wandb.init = refuse
    assert train("trackio", "wandb") == 2
    refused(capsys, "'wandb'", "No API key configured.", "leave it out")
    assert trackio.finished == 1


def test_no_loggers_leave_no_trace(tmp_path):
    with loggers.opened_loggers([], tmp_path, {}) as outlets:
        assert outlets == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MetisError, match="'x'"), loggers.opened_loggers(["x"], tmp_path, {}):
        pass


def test_tensorboard_shows_each_step_once_also_after_a_resume(monkeypatch, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    crash_in_step_4(monkeypatch, "tensorboard")
    assert train("tensorboard") == 0
    rows = logged(tmp_path / "run")
    shown = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    assert set(shown.Tags()["scalars"]) == {key for row in rows for key in row if key != "step"}
    for name in ("batch/reward", "eval/accuracy", "total/rollout_generated"):
        expected = [(row["step"], row[name]) for row in rows if name in row]
        scalars = [(event.step, event.value) for event in shown.Scalars(name)]
        assert scalars == [(step, pytest.approx(value)) for step, value in expected]


def test_tensorboard_s_folder_can_be_another(monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORBOARD_DIR", str(tmp_path / "events"))
    assert train("tensorboard") == 0
    assert not (tmp_path / "run/tensorboard").exists()
    assert len(list((tmp_path / "events").glob("events.*"))) == 1


def test_a_sink_that_fails_is_left_out_and_takes_nothing_with_it(trackio, wandb, capsys):
    def failing(*_, **__):
        raise ConnectionError("the service is gone")

    def log(metrics, step):
        return failing() if step == 2 else handed(metrics, step)

    handed, trackio.log, trackio.finish = trackio.log, log, failing
    assert train("trackio", "wandb") == 0
    assert [row["step"] for row in trackio.rows] == [0, 1]
    assert [row["step"] for row in wandb.rows] == [0, 1, 2, 3, 4]
    assert "Trackio is dropped from here on (the service is gone)" in capsys.readouterr().out
