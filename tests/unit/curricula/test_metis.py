"""METIS around its judge: what is chosen of the predictions, and what the judge is handed."""

import json
from dataclasses import dataclass, field, replace

import pytest

from metis import MetisError, Pool, Progress, drive
from metis.core import Complete, Continuation, Embed, Judgment, Rollout, Score
from metis.core.needs import Needs
from metis.core.state import Stateful
from metis.curricula.judges import (
    JUDGES,
    Direct,
    Failure,
    Judge,
    Lesson,
    Prediction,
    Predictions,
    Readout,
    Reason,
)
from metis.curricula.judges.scale import VARIANCE
from metis.curricula.judges.skill import FLAT_STEPS
from metis.curricula.metis import Metis
from scripted import LETTERS, PASSED, PROMPTS, Scripted, alike


@dataclass
class Table(Stateful, Judge[Predictions]):
    """Predictions from a table: None is a failure. Keeps what it was handed."""

    table: dict[str, float | None] = field(default_factory=dict)
    left_out: str = ""

    handed: list[str] = field(init=False, default_factory=list)

    def predict(self, candidates, batch, pool, progress):
        yield from ()
        self.handed += [f"{len(candidates)} for {batch} at {progress.step}"]
        return Predictions(
            [
                Prediction(prompt, v, v, None if v is not None else Failure.NO_BOX)
                for prompt in candidates
                if prompt.id not in self.left_out
                for v in [self.table[prompt.id]]
            ],
            metrics={"judge/asked": 4.0},
        )

    def learn(self, predictions, groups, pool, progress):
        self.handed += [group.prompt.id for group in groups]
        row = Judgment(groups[0].prompt, Continuation([], "?", -1.0), 0.5)
        targets = {group.prompt.id: 0.07 for group in groups}
        return Lesson([row], {"judge/reward": 0.7}, gradient_share=0.4, targets=targets)


TABLE = {"a": 0.1, "b": None, "c": 0.25, "d": 0.0}


def metis(judge, **knobs):
    given = {"batch": 2, "multiplier": 2, "explore": 0.0, "trial": 0, **knobs}
    return Metis(**given, judge=judge)


def step(curriculum, engine, at=0, pool=None, seed=0):
    return drive(curriculum.step(pool or Pool(PROMPTS), Progress(at, seed=seed)), engine)


def test_a_judge_predicts_metis_chooses_and_the_judge_learns_from_what_came_out():
    curriculum, engine = metis(Table(TABLE)), Scripted({}, PASSED)
    batch = step(curriculum, engine, 3)
    [rolled] = engine.asked
    assert isinstance(rolled, Rollout) and {prompt.id for prompt in rolled.prompts} == {"a", "c"}
    first, *groups = curriculum.judge.handed
    assert first == "4 for 2 at 3" and set(groups) == {"a", "c"}
    [row] = batch.judgments
    assert (row.advantage, batch.gradient_share) == (0.5, 0.4)
    assert (batch.metrics["judge/reward"], batch.metrics["judge/asked"]) == (0.7, 4.0)
    assert batch.metrics["judge/failure_rate"] == 0.25
    decisions = {decision.prompt.id: decision for decision in batch.decisions}
    assert {key: each.score for key, each in decisions.items()} == TABLE
    assert decisions["b"].failure == "no box"
    assert {key: each.reason for key, each in decisions.items()} == {
        "a": "top",
        "b": "passed over",
        "c": "top",
        "d": "passed over",
    }


def test_a_judge_needs_predict_alone():
    @dataclass
    class Constant(Judge[Predictions]):
        def predict(self, candidates, batch, pool, progress):
            yield from ()
            return Predictions([Prediction(prompt, 0.1, 0.1) for prompt in candidates])

    curriculum, engine = metis(Constant()), Scripted({}, PASSED)
    assert curriculum.needs == Needs() and Metis(judge=Constant()).judge_trial.steps == 16
    batch = step(curriculum, engine)
    assert len(batch.groups) == 2 and not batch.judgments and not batch.exemplars
    assert "judge/reward" not in batch.metrics


def test_equal_scores_choose_every_candidate_equally_often():
    counts = dict.fromkeys("abcd", 0)
    for seed in range(600):
        for group in step(
            metis(Table(dict.fromkeys("abcd", 0.1))), Scripted({}, PASSED), seed=seed
        ).groups:
            counts[group.prompt.id] += 1
    assert all(abs(count - 300) < 5 * 150**0.5 for count in counts.values())


def test_candidates_that_the_judge_leaves_out_are_not_chosen():
    batch = step(metis(Table(TABLE, left_out="c")), Scripted({}, PASSED))
    assert {group.prompt.id for group in batch.groups} == {"a", "d"}
    assert [decision.prompt.id for decision in batch.decisions if decision.prompt.id == "c"] == []


def test_uniform_slots_are_what_skill_is_measured_on():
    curriculum = metis(Table({prompt.id: 0.1 for prompt in LETTERS}), batch=8, explore=0.5)
    engine = Scripted({}, {prompt.id: i % 9 for i, prompt in enumerate(LETTERS)})
    batch = step(curriculum, engine, pool=Pool(LETTERS))
    explored = [decision for decision in batch.decisions if decision.reason == "explore"]
    assert len(explored) == len(curriculum.skill.outcomes) == 4
    assert batch.metrics["judge/outcomes"] == batch.metrics["select/explored"] == 4.0
    assert {outcome.target for outcome in curriculum.skill.outcomes} == {0.07}, "the judge's"
    chosen = [g for g in batch.groups if g.prompt.id not in {d.prompt.id for d in explored}]
    mean = sum(group.mean for group in chosen) / len(chosen)
    assert batch.metrics["select/chosen_reward"] == pytest.approx(mean)


def test_predictions_that_are_all_alike_are_told_of_once():
    curriculum, pool = metis(Table({p.id: 0.1 for p in LETTERS})), Pool(LETTERS)
    engine = Scripted({}, {prompt.id: 4 for prompt in LETTERS})
    batches = [step(curriculum, engine, at, pool) for at in range(FLAT_STEPS + 4)]
    assert all(batch.metrics["judge/spread"] == pytest.approx(0.0) for batch in batches)
    assert [i for i, batch in enumerate(batches) if batch.notices] == [FLAT_STEPS - 1]


def test_whether_there_is_a_trial_depends_on_the_judge_unless_told():
    assert [Metis(judge=kind()).judge_trial.steps for kind in JUDGES.values()] == [16, 16, 0, 0, 16]
    assert Metis(judge=Readout(), trial=9).judge_trial.steps == 9
    assert Metis(judge=Direct(), trial=0).judge_trial.steps == 0
    assert Metis().trial is None, "a setting stays as given"
    assert replace(Metis(), judge=Readout()).judge_trial.steps == 0
    assert Metis().judge == Direct() and (Metis().multiplier, Metis().explore) == (8, 0.1)


def test_it_needs_what_its_judge_needs():
    asked = {name: Metis(batch=8, judge=kind()).needs for name, kind in JUDGES.items()}
    assert asked["direct"].requests == {Score} and asked["direct"].choices == VARIANCE.choices
    assert asked["reason"].requests == {Complete} and asked["reason"].sampling.max_tokens == 512
    assert asked["readout"].requests == {Embed}
    assert asked["direct"] == Direct().needs(8) != Direct().needs(256) == Metis().needs


@pytest.mark.parametrize("judge", [Direct(replay=3), Reason(), Readout(), Table(TABLE)])
def test_state_is_that_of_the_judge_too(judge):
    curriculum = metis(judge, explore=0.5, trial=4)
    state = curriculum.state_dict()
    assert state.keys() == {"skill", "judge_trial", "judge"}
    assert state["judge"] == judge.state_dict()
    with pytest.raises(MetisError, match=r"^state of Metis has the fields"):
        curriculum.load_state_dict({**state, "experience": {}})


def test_state_of_another_judge_is_refused():
    with pytest.raises(MetisError, match=r"^state of Reason has the fields"):
        metis(Reason()).load_state_dict(metis(Direct()).state_dict())


def test_state_comes_back_after_json():
    curriculum = metis(Direct(examples=0, replay=2), explore=0.5, trial=4)
    step(curriculum, Scripted({}, PASSED, alike(VARIANCE)))
    saved = curriculum.state_dict()
    saved["judge"]["labels"] = []  # the one part that has arrays
    other = metis(Direct(examples=0, replay=2), explore=0.5, trial=4)
    other.load_state_dict(json.loads(json.dumps(saved)))
    assert other.skill == curriculum.skill and other.judge.memory == curriculum.judge.memory
    assert other.judge_trial == curriculum.judge_trial and other.judge_trial.on
    assert other.judge.offsets == curriculum.judge.offsets


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"multiplier": 0}, "curriculum.multiplier = 0"),
        ({"batch": 0}, "batch = 0"),
        ({"group": 1}, "group = 1"),
        ({"explore": 1.5}, "curriculum.explore = 1.5"),
        ({"trial": -1}, "curriculum.trial = -1"),
        ({"explore": 0.0}, "curriculum.trial = 16"),
    ],
)
def test_impossible_knobs_are_refused_by_name(knobs, words):
    with pytest.raises(MetisError, match=f"^{words}"):
        Metis(**knobs)


class Wrong(Direct):
    """A judge whose predictions are what `flaw` makes of those of `Direct`."""

    def predict(self, candidates, batch, pool, progress):
        predictions = yield from super().predict(candidates, batch, pool, progress)
        return self.flaw(predictions)


FLAWS = {
    "a list": lambda made: list(made.candidates),
    "too few": lambda made: replace(made, candidates=made.candidates[:1]),
    "one twice": lambda made: replace(made, candidates=[*made.candidates, made.candidates[0]]),
    "a score that is no number": lambda made: replace(
        made, candidates=[replace(each, score=float("nan")) for each in made.candidates]
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_predictions_that_cannot_be_chosen_from_are_refused_by_the_judge_s_name(flaw):
    judge = Wrong()
    judge.flaw = FLAWS[flaw]
    engine = Scripted(logprobs=alike(VARIANCE), passed=dict.fromkeys("abcdefghijklmnopqrst", 4))
    with pytest.raises(MetisError, match=r"Wrong\.predict returned"):
        drive(Metis(batch=4, judge=judge).step(Pool(LETTERS), Progress(0)), engine)
