"""Laws of the selector, for every curriculum that it serves: whatever comes when, nothing is lost.

Each example is a random history: proposals, outcomes in any order, drops, outcomes that come too
late or never, and saving at any moment.
"""

import random
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import given as rows_for
from laws import make, variants
from metis import MetisError, Selector
from metis.core import Embed, Fit, Predict, state
from metis.core.needs import needs_of
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.selector import selection

PROMPTS, STEPS = 60, 20
ENGINE = SimulatedEngine(Simulation(prompts=PROMPTS, heldout=1))


def ask(request):
    """A model that never changes."""
    if isinstance(request, Embed):
        return ENGINE.embed(request.prompts, request.depths)
    if isinstance(request, Predict):
        return [zlib.crc32(prompt.id.encode()) / 2**32 for prompt in request.prompts]
    assert isinstance(request, Fit)
    return 0.5


def is_served(name, variant):
    needs = needs_of(make(name, variant))
    return not (needs.trains_judge or needs.held)


SERVED = [
    pytest.param(*each, id="-".join(filter(None, each))) for each in variants() if is_served(*each)
]
every_served_curriculum = pytest.mark.parametrize(("name", "variant"), SERVED)
MOVES = st.lists(
    st.sampled_from(
        [
            *("propose", "propose", "observe", "end oldest", "end newest"),
            *("fail", "drop", "observe late", "save"),
        ]
    ),
    min_size=8,
    max_size=15,
)


def selector(name, variant, rewards="binary"):
    curriculum = make(name, variant)
    given = rows_for(ENGINE.pool, variant)
    return Selector(given, curriculum, steps=STEPS, seed=3, rewards=rewards, ask=ask)


def outcome(pick, rewards, seed):
    """The rewards of a pick, the same whoever rolls it out."""
    rng = random.Random(f"{seed}/{pick.id}")
    chance = (0.0, 0.0, 0.5, 1.0, 1.0)[zlib.crc32(pick.key.encode()) % 5]  # few are informative
    values = [float(rng.random() < chance) for _ in range(pick.n)]
    return values if rewards == "binary" else [value * rng.random() for value in values]


def saved(made, folder):
    """The state of a selector, as a file has it."""
    state.save_state(Path(folder) / "state", made.state_dict())
    return state.load_state(Path(folder) / "state"), (Path(folder) / "state").read_bytes()


class History:
    """Plays moves on a selector; with `saving`, a new one takes over at every save."""

    def __init__(self, name, variant, rewards, seed, saving):
        self.make = lambda: selector(name, variant, rewards)
        self.selector, self.rewards, self.saving = self.make(), rewards, saving
        self.seed, self.rng = seed, random.Random(seed)
        self.open, self.log, self.answered, self.proposal, self.late = {}, [], [], {}, []

    def play(self, moves, folder):
        for move in moves:
            getattr(self, f"_{move.replace(' ', '_')}")(folder)
            assert {pick.id: pick for pick in self.selector.outstanding} == self.open
        return self.log

    def _propose(self, folder):
        try:
            picks = self.selector.propose()
        except MetisError as error:
            assert needs_of(self.selector._source.curriculum).in_turn and self.open
            self.log.append(str(error))
            return
        assert picks and not {pick.id for pick in picks} & {*self.open, *self.answered}
        self._give_up()
        self.open |= {pick.id: pick for pick in picks}
        self.proposal |= dict.fromkeys([pick.id for pick in picks], len(self.log))
        self.log.append([(p.id, p.key, p.n, p.measure) for p in picks])

    def _give_up(self):
        """What has been outstanding for too long is no longer, and is counted."""
        kept = {pick.id for pick in self.selector.outstanding}
        lost = [pick for pick in sorted(self.open) if pick not in kept]
        self.late += [self.open.pop(pick) for pick in lost]
        self.answered += lost
        assert self.selector.metrics()["selector/late"] == len(self.late)
        newest = max(self.proposal.values(), default=0)
        assert not any(self.proposal[pick] == newest for pick in lost)

    def _observe_late(self, folder):
        """It changes nothing."""
        if self.late:
            pick, (_, before) = self.rng.choice(self.late), saved(self.selector, folder)
            assert not self.selector.observe(pick.id, outcome(pick, self.rewards, self.seed))
            assert saved(self.selector, folder)[1] == before

    def _take(self):
        return self.open.pop(self.rng.choice(sorted(self.open)))

    def _observe(self, folder):
        if self.open:
            self._observed(self._take())

    def _observed(self, pick):
        self.answered.append(pick.id)
        values = outcome(pick, self.rewards, self.seed)
        self.log.append(self.selector.observe(pick.id, values))

    def _observe_all(self, folder):
        while self.open:
            self._observe(folder)

    def _end_oldest(self, folder):
        self._end(min)

    def _end_newest(self, folder):
        self._end(max)

    def _end(self, which):
        """Observe all of one proposal, in any order."""
        if self.open:
            of = which(self.proposal[pick] for pick in self.open)
            part = [pick for pick in sorted(self.open) if self.proposal[pick] == of]
            for pick in self.rng.sample(part, len(part)):
                self._observed(self.open.pop(pick))

    def _fail(self, folder):
        if self.open:
            pick = self._take()
            self.answered.append(pick.id)
            self.log.append(self.selector.observe(pick.id, [1.0, None][: pick.n], failed=1))

    def _drop(self, folder):
        if self.open:
            pick = self._take()
            self.answered.append(pick.id)
            self.selector.drop(pick.id)

    def _save(self, folder):
        if self.saving:
            content, before = saved(self.selector, folder)
            self.selector = self.make()
            self.selector.load_state_dict(content)
            assert saved(self.selector, folder)[1] == before


@every_served_curriculum
@settings(max_examples=6, deadline=None)
@given(
    moves=MOVES,
    seed=st.integers(0, 99),
    continuous=st.booleans(),
    late=st.sampled_from([1, selection.LATE]),
)
def test_every_pick_is_answered_or_dropped_and_resuming_changes_nothing(
    name, variant, moves, seed, continuous, late
):
    rewards = "continuous" if continuous else "binary"
    with TemporaryDirectory() as folder, patch.object(selection, "LATE", late):
        logs = []
        for saving in (False, True):
            history = History(name, variant, rewards, seed, saving)
            logs.append(history.play([*moves, "observe all", "propose"], folder))
            assert len(set(history.answered)) == len(history.answered)
        assert logs[0] == logs[1]


@every_served_curriculum
@pytest.mark.parametrize("lag", [0, 2])
def test_steps_end_and_train_whatever_the_lag(name, variant, lag):
    made, waiting, trained = selector(name, variant), [], 0
    for _ in range(30):
        while len(waiting) > (0 if needs_of(made._source.curriculum).in_turn else lag):
            for pick in waiting.pop(0):
                trained += made.observe(pick.id, outcome(pick, "binary", 0))
        waiting.append(made.propose())
    assert made.metrics()["selector/ended"] > 3
    assert trained > 6
