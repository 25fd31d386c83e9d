from collections import Counter
from dataclasses import fields

import numpy as np
import pytest

from metis.core import (
    Batch,
    Complete,
    Completion,
    Embed,
    Engine,
    Fit,
    Group,
    Predict,
    Prompt,
    Rollout,
    Sampling,
    Score,
    Trajectory,
)
from metis.core.drive import drive
from metis.core.predictors import AttentionModel, ValueModel
from metis.run.meter import ROLLOUTS, Meter

ONE, TWO = Prompt("data:1", "one"), Prompt("data:2", "two")
CHAT = [{"role": "user", "content": "hello"}]
SAMPLING = Sampling(max_tokens=8)


def written(tokens, context=3):
    mask = np.array([False] * context + [True] * tokens)
    return Trajectory(np.zeros(mask.size, int), mask, np.zeros(mask.size, np.float32), 0)


COMPLETIONS = [Completion("a", written(5), "stop"), Completion("b", written(2), "length")]
GROUPS = [
    Group(ONE, (0.0, 1.0), (written(4), written(6)), failed=1, cut_off=2),
    Group(TWO, (1.0,), (written(7),), failed=2, failed_tokens=5),
]
REPLIES = {
    "complete": (1.0, COMPLETIONS),
    "score": (2.0, [[-1.0, -2.0]]),
    "rollout": (4.0, GROUPS),
    "embed": (8.0, [np.zeros(2, np.float32)]),
    "predict": (16.0, [0.1, 0.2]),
    "fit": (32.0, 0.5),
    "update": (64.0, {"loss": 0.5}),
}


class Scripted(Engine):
    """Is given its methods below."""


@pytest.fixture
def engine():
    made = Scripted()
    vars(made).update(now=100.0, calls=[], processed=5, laps={}, clock=lambda: made.now)

    def answering(name, seconds, reply):
        def answer(*arguments):
            made.calls.append((name, *arguments))
            made.now += seconds
            made.processed += int(10 * seconds)
            return reply

        return answer

    for name, (seconds, reply) in REPLIES.items():
        setattr(made, name, answering(name, seconds, reply))
    return made


@pytest.mark.parametrize(
    ("request_", "seconds", "counts"),
    [
        (Complete([CHAT, CHAT], SAMPLING), {"judge": 1.0}, {"asked": 2, "tokens": 7}),
        (Score([CHAT], ["a", "b"]), {"judge": 2.0}, {"asked": 1}),
        (
            Rollout([ONE, TWO], 3),
            {"rollout": 4.0},
            {"generated": 6, "failed": 3, "cut_off": 2, "tokens": 22, "wasted": 12},
        ),
        (Embed([ONE]), {"select": 8.0}, {"forwards": 1}),
        (Predict([ONE, TWO], ValueModel()), {"select": 16.0}, {"forwards": 2}),
        (Predict([ONE], AttentionModel(), [(TWO, 0.1)]), {"select": 16.0}, {"forwards": 2}),
        (Fit([ONE, TWO], [0.1, 0.2], ValueModel()), {"select": 32.0}, {"forwards": 2}),
    ],
)
def test_a_request_is_passed_on_and_charged_to_its_phase(engine, request_, seconds, counts):
    meter, name = Meter(engine), type(request_).__name__.lower()
    assert meter.answer(request_) is REPLIES[name][1]
    assert engine.calls == [(name, *(getattr(request_, f.name) for f in fields(request_)))]
    assert meter.seconds == seconds
    (phase,) = seconds
    processed = {"processed": int(10 * seconds[phase])}
    expected = Counter({f"{phase}/{what}": n for what, n in (counts | processed).items()})
    assert meter.counts == expected


def test_what_is_done_in_a_phase_is_charged_to_it(engine):
    heard = []
    meter = Meter(engine, heard.append)
    with meter.phase("update"):
        engine.update(Batch(GROUPS))
    assert heard == ["update"]
    assert meter.seconds == {"update": 64.0}
    assert meter.counts == Counter({"update/processed": 640})


def test_the_accounts_add_up_over_a_plan(engine):
    def plan():
        yield Score([CHAT], ["a", "b"])
        yield Rollout([ONE, TWO], 3)
        yield Score([CHAT, CHAT], ["a"])
        yield Rollout([ONE, TWO], 3)

    meter = Meter(engine)
    drive(plan(), meter)
    assert meter.seconds == {"judge": 4.0, "rollout": 8.0}
    assert meter.counts == Counter(
        {
            "judge/asked": 3,
            "rollout/generated": 12,
            "rollout/failed": 6,
            "rollout/cut_off": 4,
            "rollout/tokens": 44,
            "rollout/wasted": 24,
            "judge/processed": 40,
            "rollout/processed": 80,
        }
    )


def test_a_step_without_rollouts_says_that_there_were_none(engine):
    counts = dict(Meter(engine).counts)
    assert counts == {f"rollout/{name}": 0 for name in ROLLOUTS}


def test_laps_are_charged_to_the_phase_they_belong_to(engine):
    engine.laps = {"judge": 3.0, "reward": 0.0}
    update = engine.update

    def updating(batch):
        engine.laps = {"judge": 13.0, "reward": 0.0}
        return update(batch)

    engine.update = updating
    meter = Meter(engine)
    meter.answer(Score([CHAT], ["a", "b"]))
    with meter.phase("update"):
        engine.update(Batch(GROUPS))
    assert meter.seconds == {"judge": 12.0, "update": 54.0}


def test_only_what_the_policy_wrote_counts_as_tokens(engine):
    engine.complete = lambda *_: [Completion("", written(0, context=50), "stop")]
    meter = Meter(engine)
    meter.answer(Complete([CHAT], SAMPLING))
    assert meter.counts["judge/tokens"] == 0
