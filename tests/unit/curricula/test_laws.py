"""Laws that every curriculum obeys: those registered, the example, and METIS_CURRICULUM."""

import pickle
from dataclasses import fields
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from laws import (
    BATCH,
    ROLLOUTS,
    check,
    check_explained,
    given,
    make,
    run,
    section,
    summarise,
    variants,
)
from metis import Group, Pool
from metis.config import resolve
from metis.core import state as states
from metis.core.needs import needs_of
from metis.core.state import Stateful
from metis.curricula import CURRICULA
from metis.curricula.cards import curriculum_card, documented
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.run.meter import Meter
from metis.settings.sections import curriculum_of

every_curriculum = pytest.mark.parametrize(
    ("name", "variant"), [pytest.param(*it, id="-".join(filter(None, it))) for it in variants()]
)
both_rewards = pytest.mark.parametrize("rewards", ["binary", "continuous"])


def world(variant="", seed=0, prompts=60, rewards="binary", failures=0.0):
    simulation = Simulation(prompts=prompts, heldout=1, rewards=rewards, failures=failures)
    engine = SimulatedEngine(simulation, seed)
    return engine, Pool(given(engine.pool, variant), rewards=rewards, seed=seed)


class Recorder:
    """Passes requests on to an engine and keeps the bytes of each: arrays take long to print."""

    def __init__(self, engine):
        self.engine, self.requests = engine, []

    def answer(self, request):
        self.requests.append((type(request), pickle.dumps(request)))
        return self.engine.answer(request)


@every_curriculum
def test_the_settings_that_a_run_records_make_the_same(name, variant):
    given = {"batch": BATCH, "group": ROLLOUTS, "curriculum": section(name, variant)}
    recorded = resolve({"engine": "simulated", **given}).resolved["curriculum"]
    again = curriculum_of(recorded, BATCH, ROLLOUTS)
    assert repr(again) == repr(make(name, variant))


class Uninterrupted(NamedTuple):
    """Twelve steps that were not interrupted."""

    pool: Pool
    batches: list
    requests: list


def train(name, variant, rewards):
    engine, pool = world(variant, rewards=rewards)
    recorder = Recorder(engine)
    batches = run(make(name, variant), engine, pool, 12, through=recorder)
    return Uninterrupted(pool, batches, recorder.requests)


uninterrupted = cache(train)
"""Several laws read the same steps."""


@every_curriculum
@both_rewards
def test_batches_hold_distinct_prompts_of_the_pool_with_clean_metrics(name, variant, rewards):
    trained = uninterrupted(name, variant, rewards)
    assert any(batch.groups for batch in trained.batches)
    for batch in trained.batches:
        check(batch, trained.pool)
        check_explained(name, batch)


@every_curriculum
@both_rewards
def test_nothing_is_asked_for_that_was_not_declared(name, variant, rewards):
    asked = {kind for kind, _ in uninterrupted(name, variant, rewards).requests}
    assert asked <= needs_of(make(name, variant)).asked


@every_curriculum
@both_rewards
def test_the_same_seed_asks_the_same(name, variant, rewards):
    again = train(name, variant, rewards)
    assert again.requests == uninterrupted(name, variant, rewards).requests


@every_curriculum
@pytest.mark.parametrize(
    ("cut", "rewards"), [(1, "binary"), (3, "continuous"), (7, "binary"), (9, "continuous")]
)
def test_saving_and_loading_between_steps_changes_nothing(name, variant, cut, rewards, tmp_path):
    engine, pool = world(variant, rewards=rewards)
    curriculum = make(name, variant)
    first = run(curriculum, engine, pool, cut)
    saved = {"c": curriculum.state_dict(), "p": pool.state_dict(), "e": engine.state_dict()}
    states.save_state(tmp_path / "state", saved)
    saved = states.load_state(tmp_path / "state")

    engine, pool = world(variant, rewards=rewards)
    curriculum = make(name, variant)
    curriculum.load_state_dict(saved["c"])
    pool.load_state_dict(saved["p"])
    engine.load_state_dict(saved["e"])
    second = run(curriculum, engine, pool, 12 - cut, start=cut)
    assert summarise(first + second) == summarise(uninterrupted(name, variant, rewards).batches)


@every_curriculum
@pytest.mark.parametrize(
    ("reward", "rewards"),
    [(0.0, "binary"), (1.0, "binary"), (0.0, "continuous"), (0.37, "continuous")],
)
def test_constant_rewards_are_survived(name, variant, reward, rewards):
    class Constant(SimulatedEngine):
        def rollout(self, prompts, n):
            groups = super().rollout(prompts, n)
            return [Group(g.prompt, (reward,) * len(g.rewards), g.trajectories) for g in groups]

    _, pool = world(variant, rewards=rewards)
    engine = Constant(Simulation(prompts=60, heldout=1))
    for batch in run(make(name, variant), engine, pool, 8):
        check(batch, pool)
        check_explained(name, batch)


@every_curriculum
@both_rewards
@pytest.mark.parametrize("failures", [0.6, 1.0])
def test_failed_rollouts_are_survived(name, variant, failures, rewards):
    engine, pool = world(variant, rewards=rewards, failures=failures)
    for batch in run(make(name, variant), engine, pool, 8):
        check(batch, pool)
        check_explained(name, batch)


@every_curriculum
@both_rewards
@pytest.mark.parametrize("failures", [0.0, 0.3])
def test_every_rollout_is_trained_on_discarded_failed_or_held(name, variant, failures, rewards):
    engine, pool = world(variant, rewards=rewards, failures=failures)
    meter, curriculum = Meter(engine), make(name, variant)
    batches = run(curriculum, engine, pool, 12, through=meter)
    once = {id(group): group for batch in batches for group in batch.groups}  # some are replayed
    trained = sum(len(group.rewards) for group in once.values())
    held = [*getattr(curriculum, "waiting", []), *getattr(curriculum, "ready", [])]
    buffered = sum(len(group.rewards) for group in held)
    discarded = [batch.metrics.get("select/discarded") for batch in batches]
    assert None not in discarded or not any(discarded)
    wasted = meter.counts["rollout/failed"] + sum(filter(None, discarded))
    assert meter.counts["rollout/generated"] == trained + buffered + wasted


@every_curriculum
@both_rewards
@pytest.mark.parametrize("prompts", [1, BATCH - 1, BATCH + 1])
def test_short_pools_are_survived(name, variant, prompts, rewards):
    engine, pool = world(variant, rewards=rewards, prompts=prompts)
    for batch in run(make(name, variant), engine, pool, 8):
        check(batch, pool)


@every_curriculum
def test_an_empty_pool_gives_an_empty_batch(name, variant):
    engine, _ = world(variant)
    for batch in run(make(name, variant), engine, Pool([]), 3):
        assert list(batch.groups) == []


@every_curriculum
def test_state_is_a_copy(name, variant):
    engine, pool = world(variant)
    curriculum = make(name, variant)
    run(curriculum, engine, pool, 3)
    before = curriculum.state_dict()
    frozen = repr(before)
    run(curriculum, engine, pool, 3, start=3)
    assert repr(before) == frozen


ACTS = ("before rollouts", "after rollouts", "before and after")


@pytest.mark.parametrize("name", CURRICULA)
def test_it_documents_itself(name):
    kind = CURRICULA[name]
    assert issubclass(kind, Stateful)
    assert kind.__doc__.splitlines()[0].endswith(".")
    for field in fields(kind):
        assert not field.init or field.name in documented(kind), (
            f"knob {field.name} is undocumented"
        )
    said = curriculum_card(kind)
    assert said.summary.endswith(".") and said.idea and said.equation and said.reference
    assert said.deviations or said.note == "none."
    assert said.acts.startswith(ACTS)
    for cell in (said.acts, needs_of(kind()).described(), said.costs, said.continuous):
        assert 0 < len(cell) <= 80, f"for a cell of the table, too long or missing: {cell!r}"


def test_the_loop_closes_in_the_simulation():
    """METIS finds more variance than uniform, because its judge learns, and so learns faster."""

    def trained(name, **engine_settings):
        curriculum = resolve({"batch": 32, "curriculum": {"name": name}}).curriculum
        engine = SimulatedEngine(Simulation(**engine_settings))
        batches = run(curriculum, engine, Pool(engine.pool), 80)
        late = [g.variance for batch in batches[20:] for g in batch.groups]
        return float(np.mean([p for _, p in engine.evaluate()])), float(np.mean(late))

    accuracy, variance = trained("metis")
    uniform_accuracy, uniform_variance = trained("uniform")
    _, untrained_variance = trained("metis", judge_rate=0.0)
    assert variance > 1.5 * uniform_variance
    assert variance > 1.2 * untrained_variance
    assert accuracy > uniform_accuracy + 0.02
