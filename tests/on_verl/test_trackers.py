"""Answers for the trackers that verl has opened, and notices of failed rollouts."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
from verl.utils.tracking import Tracking

from metis import Batch, Group, Prompt
from metis.core import Decision, Rollout, Trajectory, Transcript
from metis.engines.verl.trainer.failures import Failures
from metis.engines.verl.trainer.trackers import Trackers
from metis.run.loggers import COLUMNS

ASKED = [{"role": "user", "content": "1 + 1?"}]


def group(name="a", *failures):
    tokens = np.arange(3)
    one = Trajectory(tokens, tokens > 0, np.zeros(3, np.float32), 0)
    said = [Transcript(ASKED, [{"role": "assistant", "content": "<b>2</b>"}], 1.0, {}, 2)]
    said += [Transcript(ASKED, (), failure=failure) for failure in failures]
    return Group(Prompt(name, "1 + 1", "sums"), (1.0,), (one,), len(failures), transcripts=said)


BATCH = Batch([group()], decisions=[Decision(group().prompt, True, "top", 0.25)])


class Service:
    """A tracker's package, and what verl has of it."""

    def __init__(self, fails=False):
        self.rows, self.fails = [], fails

    def log(self, data, step):
        if self.fails:
            raise ConnectionError("no network")
        self.rows.append((step, data))

    def Table(self, columns, data):
        return [dict(zip(columns, row, strict=True)) for row in data]

    def Trace(self, messages, metadata):
        return messages, metadata


@pytest.fixture
def opened(monkeypatch):
    """verl's tracking, with made-up services."""

    def opened(**services):
        tracking = Tracking.__new__(Tracking)
        tracking.logger, tracking._finished = services, True
        for name, service in services.items():
            monkeypatch.setitem(sys.modules, name, service)
        return tracking

    return opened


def test_answers_are_a_table_on_wandb_and_traces_on_trackio(opened):
    wandb, trackio = Service(), Service()
    tracking = opened(wandb=wandb, trackio=trackio, console=Service())
    assert list(Trackers(5).show(tracking, 10, BATCH)) == []
    [(step, data)] = wandb.rows
    [row] = data["answers"]
    assert step == 10 and tuple(row) == COLUMNS
    assert (row["prompt"], row["answer"], row["predicted"]) == ("1 + 1?", "<b>2</b>", 0.25)
    [(step, data)] = trackio.rows
    [(messages, about)] = data["answers"]
    assert step == 10 and [turn["role"] for turn in messages] == ["user", "assistant"]
    assert about["reward"] == 1.0
    assert tracking.logger["console"].rows == []


@pytest.mark.parametrize(
    ("every", "step", "batch"), [(5, 9, BATCH), (0, 10, BATCH), (5, 5, Batch([]))]
)
def test_nothing_is_sent_in_other_steps_or_without_answers(opened, every, step, batch):
    wandb = Service()
    assert list(Trackers(every).show(opened(wandb=wandb), step, batch)) == []
    assert wandb.rows == []


def test_a_tracker_that_fails_is_told_of_once_and_gets_no_more_answers(opened):
    wandb, trackio, shown = Service(fails=True), Service(), Trackers(1)
    tracking = opened(wandb=wandb, trackio=trackio)
    [notice] = shown.show(tracking, 1, BATCH)
    assert "wandb" in notice and "no network" in notice
    assert list(shown.show(tracking, 2, BATCH)) == []
    assert [step for step, _ in trackio.rows] == [1, 2]


def test_answers_are_a_table_in_verl_s_event_files_of_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_DIR", str(tmp_path))
    tracking = Tracking("metis", "mine", ["tensorboard"])
    assert list(Trackers(2).show(tracking, 2, BATCH)) == []
    tracking.log({"metis/batch/reward": 1.0}, 2)
    tracking.finish()
    events = EventAccumulator(str(tmp_path)).Reload()
    [event] = events.Tensors("answers")
    table = make_ndarray(event.tensor_proto)
    assert event.step == 2 and table.shape == (2, len(COLUMNS))
    assert b"&lt;b&gt;2" in table[1][COLUMNS.index("answer")]
    assert [event.step for event in events.Scalars("metis/batch/reward")] == [2]


def test_the_first_failure_of_each_kind_is_told():
    def heard(*failures):
        asked = Rollout([group().prompt], 1 + len(failures))
        return [(asked, [group("a", *failures)]), (SimpleNamespace(), "a reply")]

    first, again = "ValueError: 3 (a.py, line 2, in f)", "ValueError: 4 (a.py, line 2, in f)"
    failures = Failures()
    assert [first in text for text in failures.notices(heard(first, again))] == [True]
    assert failures.notices(heard(again)) == [] == failures.notices(heard())
    other = "ValueError: 3 (a.py, line 9, in f)"
    assert [other in text for text in failures.notices(heard(again, other))] == [True]
