"""Rounds of a survey: as many prompts as the engine takes, each saved; and what is said of them."""

import io

import pytest
from rich.console import Console

from metis.engines.simulated import SimulatedEngine, Simulation
from metis.run.folder import read_log
from metis.run.transcripts import members, segments
from metis.surveys.collect import SurveyFolder, SurveyView, collect
from talking import with_words


def test_lines_come_with_the_first_part_and_now_and_then():
    now, file = [0.0], io.StringIO()
    view = SurveyView(Console(file=file), 100, clock=lambda: now[0])
    view.resume(20)
    for now[0] in range(0, 70, 10):
        view.beat()
    view.play(4)
    now[0] = 80.0
    view.save(40)
    view.play(10)
    for now[0] in range(80, 130, 10):
        view.beat()
    view.save(60)
    assert file.getvalue().splitlines() == [
        "20 of 100 rollouts",
        "20 of 100 rollouts",
        "40 of 100 rollouts · about 240 s left",
        "50 of 100 rollouts · about 183 s left",
    ]


class Engine(SimulatedEngine):
    """Takes some rows at once, and is killed in one of its rounds."""

    def __init__(self, rows, killed=0):
        super().__init__(Simulation(prompts=50), seed=1)
        self.size, self.killed, self.asked = rows, killed, []

    @property
    def rows(self):
        return self.size

    def rollout(self, prompts, n):
        if len(self.asked) + 1 == self.killed:
            raise KeyboardInterrupt
        self.asked.append(len(prompts))
        return super().rollout(prompts, n)


class Talking(Engine):
    """Says something in every rollout."""

    def rollout(self, prompts, n):
        return [with_words(group, "survey") for group in super().rollout(prompts, n)]


def surveyed(path, engine, kept="all"):
    prompts = engine.pool[:20]
    with (
        SurveyFolder.open(path, {}) as folder,
        SurveyView(Console(file=io.StringIO()), 80) as view,
    ):
        return collect(engine, prompts, 4, 0, folder, view, kept)


@pytest.mark.parametrize(
    ("rows", "rounds"), [(28, [7, 7, 6]), (400, [20]), (4, [1] * 20), (3, [1] * 20)]
)
def test_a_round_is_as_many_prompts_as_the_engine_takes(tmp_path, rows, rounds):
    engine = Engine(rows)
    assert len(surveyed(tmp_path, engine)) == 20
    assert engine.asked == rounds


def test_rounds_are_saved_and_a_killed_survey_plays_the_rest(tmp_path):
    straight = surveyed(tmp_path / "straight", Engine(28))
    with pytest.raises(KeyboardInterrupt):
        surveyed(tmp_path / "killed", Engine(28, killed=3))
    assert len(read_log(tmp_path / "killed", "outcomes")) == 14
    again = Engine(28)
    assert surveyed(tmp_path / "killed", again) == straight
    assert again.asked == [6]


def test_what_was_said_is_kept_as_if_the_survey_had_not_been_killed(tmp_path, monkeypatch):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    outcomes = surveyed(straight, Talking(28))
    append = SurveyFolder.append

    def at_the_second_round(folder, log, rows):
        if (folder.path / "outcomes.jsonl").stat().st_size:
            raise KeyboardInterrupt
        append(folder, log, rows)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SurveyFolder, "append", at_the_second_round)
        surveyed(killed, Talking(28))
    assert len(list(members(killed))) == 14, "a round more than outcomes"
    assert surveyed(killed, Talking(28)) == outcomes
    [there], [here] = segments(straight), segments(killed)
    assert here.name == there.name == "survey-00000.jsonl.gz"
    assert here.read_bytes() == there.read_bytes()
    groups = list(members(killed))
    assert [group.head["prompt"] for group in groups] == [each.prompt for each in outcomes]
    assert all(len(group.rows) == group.head["n"] == 4 for group in groups)


def test_a_sample_of_what_was_said_may_be_kept(tmp_path):
    surveyed(tmp_path, Talking(28), kept="sample")
    assert [len(group.rows) for group in members(tmp_path)] == [1] * 20
