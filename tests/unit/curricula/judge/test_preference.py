"""The order in which candidates are taken: by hand, and what METIS then chooses."""

import math

import numpy as np
import pytest
from metis.curricula.judge.judgment import Verdict
from metis.curricula.judge.preference import Preference
from metis.curricula.judge.scale import PASSES
from metis.curricula.readout import Readout
from metis.curricula.readout.models import Outcomes

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Embed, Trajectory
from metis.curricula.judge import Judge
from metis.curricula.metis import Metis
from metis.curricula.probe import Probe
from metis.engines.simulated import SimulatedEngine, Simulation

NOTHING = Trajectory(np.zeros(1, int), np.ones(1, bool), np.zeros(1, np.float32), 0)


def verdicts(*values):
    return [Verdict(Prompt(str(i), ""), [], value) for i, value in enumerate(values)]


def certain(count):
    """A judge that is certain of a number of passes."""
    distribution = np.eye(9)[count]
    v_hat = PASSES.values[count]
    return Verdict(Prompt("x", ""), [], v_hat, scale=PASSES, distribution=distribution)


def group(*rewards, name="p"):
    return Group(Prompt(name, ""), rewards, (NOTHING,) * len(rewards))


def trained(slope=1.0):
    """A readout of one number, which what prompts are worth grows or falls with."""
    readout = Readout()
    states = [np.array([i], np.float32) for i in range(20)]
    passes = [10 + round(slope * i / 2) for i in range(20)]
    groups = [group(*[1.0] * k, *[0.0] * (40 - k), name=f"p{i}") for i, k in enumerate(passes)]
    readout.learn(states, groups, 0)
    return readout


STATES = [np.array([x], np.float32) for x in (3, 1, 2, 0)]


def test_without_a_readout_the_judge_decides():
    scores, metrics = Preference().scores(verdicts(0.1, None, 0.2), None, None, Readout())
    assert (scores, metrics) == ([0.1, None, 0.2], {})
    scores, _ = Preference().scores(verdicts(None), 0.0, None, Readout())
    assert scores == [0.0]


def test_ranks_are_mixed():
    """The judge's ranks are 0, 3, 2, 1 of 4, the readout's 3, 1, 2, 0."""
    judged = verdicts(0.01, 0.2, 0.15, 0.1)
    for mix, wanted in ((0.5, [0.5, 2 / 3, 2 / 3, 1 / 6]), (0.0, [0, 1, 2 / 3, 1 / 3])):
        scores, metrics = Preference("prompt", mix=mix).scores(judged, None, STATES, trained())
        assert scores == pytest.approx(wanted)
    assert metrics["select/labels"] == 20 and metrics["select/held_out_pearson"] > 0.99
    alone, _ = Preference("prompt", mix=1.0).scores(judged, None, STATES, trained(-1.0))
    assert alone[3] > alone[1] > alone[2] > alone[0]


def test_a_failed_judgment_ranks_last_with_the_judge_and_may_be_read_still():
    scores, _ = Preference("prompt", mix=0.5).scores(
        verdicts(None, 0.0), None, STATES[:2], trained()
    )
    assert scores == pytest.approx([0.5, 0.5])


def test_before_there_are_labels_the_judge_decides_alone():
    judged = verdicts(0.1, 0.2)
    scores, metrics = Preference("judge").scores(judged, None, STATES[:2], Readout())
    assert scores == [0.1, 0.2] and metrics == {"select/labels": 0.0}


@pytest.mark.parametrize("harder", [0.0, 1.0, 2.0])
def test_the_harder_side_is_preferred_to_the_rate_of_one_in_two_plus_harder(harder):
    preference = Preference(harder=harder)
    scores, _ = preference.scores([certain(k) for k in range(9)], None, None, Readout())
    wanted = [k / 8 * (1 - k / 8) ** (1 + harder) for k in range(9)]
    assert scores == pytest.approx(wanted)
    assert int(np.argmax(scores)) == round(8 / (2 + harder))
    outcomes = Outcomes(np.array([0.1875]), np.array([0.25]), np.array([4.0]), np.zeros(1))
    assert outcomes.worth(harder) == pytest.approx([0.25 * 0.75 ** (1 + harder)])


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"mix": 1.5}, r"preference\.mix = 1\.5: use a share"),
        ({"depths": (0.0,)}, r"preference\.depths = \[0\.0\]: use shares"),
        ({"depths": ()}, r"preference\.depths = \[\]"),
        ({"harder": math.nan}, r"preference\.harder = nan: use 0 or more"),
        ({"window": 0}, r"preference\.window = 0"),
    ],
)
def test_knobs_are_checked(knobs, message):
    with pytest.raises(MetisError, match=message):
        Preference(**knobs)


def test_a_variance_does_not_tell_hard_from_easy():
    with pytest.raises(MetisError, match=r"harder = 1\.0: a variance does not tell .*scale=passes"):
        Metis(preference=Preference(harder=1.0))
    Metis(preference=Preference("prompt", mix=1.0, harder=1.0))
    Metis(preference=Preference(harder=1.0), judge=Judge(scale="passes"))


@pytest.mark.parametrize("readout", ["prompt", "judge"])
def test_metis_asks_for_the_states_it_reads_and_chooses_by_them(readout):
    """A judge that never learns finds nothing; a readout of the simulated states does."""
    asked = []

    class Noting(SimulatedEngine):
        def embed(self, prompts, depths):
            asked.append((isinstance(prompts[0], Prompt), tuple(depths)))
            return super().embed(prompts, depths)

    engine = Noting(Simulation(judge_rate=0.0, rate=0.0, hardness=4.0))
    preference = Preference(readout, depths=(0.5, 1.0), mix=1.0)
    curriculum = Metis(batch=16, group=8, trial=0, preference=preference)
    pool, late = Pool(engine.pool), []
    for step in range(15):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
        late += [g.variance for g in batch.groups] if step > 5 else []
    assert set(asked) == {(readout == "prompt", (0.5, 1.0))}
    every = [p * (1 - p) for p in engine._success(np.arange(2000))]
    assert np.mean(late) > 2 * np.mean(every)


def test_the_readout_may_be_the_judge_and_nothing_is_asked_or_trained():
    engine = SimulatedEngine(Simulation(rate=0.0, hardness=4.0))
    curriculum = Metis(batch=16, group=8, trial=0, judge=Judge(mode="readout"))
    assert curriculum.preference.readout == "both" and curriculum.preference.mix == 1.0
    assert curriculum.needs.requests == {Embed} and not curriculum.needs.judges
    assert curriculum.replay == 0 and curriculum.judge.weight == 0.0
    pool, late = Pool(engine.pool), []
    for step in range(15):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
        assert batch.judgments == []
        late += [g.variance for g in batch.groups] if step > 5 else []
    assert batch.metrics["judge/v_hat_distinct"] > 16 and batch.metrics["judge/outcomes"] > 0
    assert all(decision.score is not None for decision in batch.decisions)
    every = [p * (1 - p) for p in engine._success(np.arange(2000))]
    assert np.mean(late) > 2 * np.mean(every)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Judge(mode="readout", loss="exact"), r"loss = 'exact': with .*readout use none"),
        (lambda: Judge(loss="none"), r"loss = 'none': with .*mode=direct use log_score"),
        (lambda: Judge(mode="readout", weight=1.0), r"weight = 1\.0: .*trains nothing"),
        (lambda: Judge(mode="readout", reward="masa"), r"reward = 'masa': .*reinforce or exact"),
        (
            lambda: Metis(judge=Judge(mode="readout"), preference=Preference(mix=0.3)),
            r"mix = 0\.3: .*no other judge",
        ),
        (
            lambda: Metis(judge=Judge(mode="readout"), preference=Preference("none")),
            r"readout = 'none': curriculum\.judge\.mode=readout reads the prompt",
        ),
    ],
)
def test_a_readout_that_reads_nothing_or_learns_by_gradient_is_refused(make, message):
    with pytest.raises(MetisError, match=message):
        make()


def test_a_readout_of_the_prompt_alone_shows_no_exemplars():
    judge, alone = Judge(mode="readout"), Preference("prompt").beside(Judge(mode="readout"))
    assert alone.shown(judge, 3) == 0 and Preference().beside(judge).shown(judge, 3) == 3
    engine = SimulatedEngine(Simulation())
    curriculum, pool = Metis(batch=8, group=4, judge=judge, preference=alone), Pool(engine.pool)
    for step in range(3):
        assert drive(curriculum.step(pool, Progress(step)), engine).exemplars == []


@pytest.mark.parametrize("curriculum", [Metis(batch=8, judge=Judge(mode="readout")), Probe(8)])
def test_states_that_are_no_numbers_are_passed_over(curriculum):
    class Diverged(SimulatedEngine):
        def embed(self, prompts, depths):
            states = super().embed(prompts, depths)
            return [
                np.full_like(state, np.nan) if i % 3 == 0 else state
                for i, state in enumerate(states)
            ]

    engine = Diverged(Simulation())
    pool = Pool(engine.pool)
    for step in range(4):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
    scores = [decision.score for decision in batch.decisions]
    assert scores.count(None) == math.ceil(len(scores) / 3)


def test_continuous_rewards_are_compared_as_variances():
    engine = SimulatedEngine(Simulation(rewards="continuous"))
    pool = Pool(engine.pool, rewards="continuous")
    curriculum = Metis(batch=16, group=8, explore=0.5, judge=Judge(mode="readout"))
    for step in range(20):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
    assert batch.metrics["judge/skill"] > 0
