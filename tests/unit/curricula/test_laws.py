"""Laws that every registered curriculum obeys."""

import json
import math
import re

import numpy as np
import pytest

from metis import Group, Pool, Progress, drive
from metis import state as states
from metis.curricula import CURRICULA
from metis.curricula.presets import PRESETS
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.state import Stateful

BATCH, ROLLOUTS = 6, 4
PREPARED = {"metis": {"guard": 12}}
"""Knobs that let a method reach all of its phases within a short test."""


def variants():
    for name in CURRICULA:
        for preset in PRESETS.get(name, {"": {}}):
            yield pytest.param(name, preset, id=f"{name}-{preset}" if preset else name)


every_curriculum = pytest.mark.parametrize(("name", "preset"), list(variants()))


def make(name, preset):
    from metis.config import resolve

    knobs = {} if preset == "paper" else PREPARED.get(name, {})
    section = {"name": name, **({"preset": preset} if preset else {}), **knobs}
    return resolve({"batch": BATCH, "group": ROLLOUTS, "curriculum": section}).curriculum


def world(seed=0, prompts=60, rewards="binary", failures=0.0):
    simulation = Simulation(prompts=prompts, heldout=1, rewards=rewards, failures=failures)
    engine = SimulatedEngine(simulation, seed)
    return engine, Pool(engine.pool, rewards=rewards, seed=seed)


class Recorder:
    """Passes requests on to an engine and keeps a fingerprint of each."""

    def __init__(self, engine):
        self.engine, self.requests = engine, []

    def __getattr__(self, name):
        def call(*arguments):
            self.requests.append((name, repr(arguments)))
            return getattr(self.engine, name)(*arguments)

        return call


def run(curriculum, engine, pool, steps, start=0, total=12):
    batches = []
    for step in range(start, start + steps):
        progress = Progress(step, step / total, engine.policy)
        batch = drive(curriculum.step(pool, progress), engine)
        if batch.groups:
            engine.update(batch)
        batches.append(batch)
    return batches


def check(batch, pool):
    ids = [group.prompt.id for group in batch.groups]
    assert len(ids) == len(set(ids)) <= BATCH
    assert all(prompt_id in pool for prompt_id in ids)
    assert {row.prompt.id for row in batch.judgments} <= set(ids)
    assert all(math.isfinite(row.advantage * row.weight) for row in batch.judgments)
    for key, value in batch.metrics.items():
        assert re.fullmatch(r"[a-z0-9_]+/[a-z0-9_.]+", key), key
        assert isinstance(value, float) and math.isfinite(value), key
    considered = [decision.prompt.id for decision in batch.decisions]
    assert len(considered) == len(set(considered))
    for decision in batch.decisions:
        assert decision.propensity is None or 0.0 <= decision.propensity <= 1.0 + 1e-9


@every_curriculum
@pytest.mark.parametrize("rewards", ["binary", "continuous"])
def test_batches_hold_distinct_prompts_of_the_pool_with_clean_metrics(name, preset, rewards):
    engine, pool = world(rewards=rewards)
    batches = run(make(name, preset), engine, pool, 12)
    assert any(batch.groups for batch in batches)
    for batch in batches:
        check(batch, pool)


@every_curriculum
def test_the_same_seed_asks_the_same(name, preset):
    traces = []
    for _ in range(2):
        engine, pool = world()
        recorder = Recorder(engine)
        curriculum = make(name, preset)
        for step in range(8):
            batch = drive(curriculum.step(pool, Progress(step, step / 8, step)), recorder)
            if batch.groups:
                engine.update(batch)
        traces.append(recorder.requests)
    assert traces[0] == traces[1]


@every_curriculum
@pytest.mark.parametrize("cut", [1, 3, 7])
def test_saving_and_loading_between_steps_changes_nothing(name, preset, cut, tmp_path):
    engine, pool = world()
    straight = summarise(run(make(name, preset), engine, pool, 12))

    engine, pool = world()
    curriculum = make(name, preset)
    first = run(curriculum, engine, pool, cut)
    saved = {"c": curriculum.state_dict(), "p": pool.state_dict(), "e": engine.state_dict()}
    states.save(tmp_path / "state", saved)
    saved = states.load(tmp_path / "state")

    engine, pool = world()
    curriculum = make(name, preset)
    curriculum.load_state_dict(saved["c"])
    pool.load_state_dict(saved["p"])
    engine.load_state_dict(saved["e"])
    second = run(curriculum, engine, pool, 12 - cut, start=cut)
    assert summarise(first + second) == straight


def summarise(batches):
    return [
        (
            [(group.prompt.id, group.rewards) for group in batch.groups],
            [(row.prompt.id, row.advantage, row.weight) for row in batch.judgments],
            json.dumps(dict(batch.metrics)),
            batch.decisions,
            batch.notices,
        )
        for batch in batches
    ]


@every_curriculum
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.37])
def test_constant_rewards_are_survived(name, preset, reward):
    class Constant(SimulatedEngine):
        def rollout(self, prompts, n):
            groups = super().rollout(prompts, n)
            return [Group(g.prompt, (reward,) * n, g.trajectories) for g in groups]

    _, pool = world(rewards="continuous")
    engine = Constant(Simulation(prompts=60, heldout=1))
    for batch in run(make(name, preset), engine, pool, 8):
        check(batch, pool)


@every_curriculum
@pytest.mark.parametrize("failures", [0.6, 1.0])
def test_failed_rollouts_are_survived(name, preset, failures):
    engine, pool = world(failures=failures)
    for batch in run(make(name, preset), engine, pool, 8):
        check(batch, pool)


@every_curriculum
@pytest.mark.parametrize("prompts", [1, BATCH - 1, BATCH + 1])
def test_short_pools_are_survived(name, preset, prompts):
    engine, pool = world(prompts=prompts)
    for batch in run(make(name, preset), engine, pool, 8):
        check(batch, pool)


@every_curriculum
def test_an_empty_pool_gives_an_empty_batch(name, preset):
    engine, _ = world()
    for batch in run(make(name, preset), engine, Pool([]), 3):
        assert list(batch.groups) == []


@every_curriculum
def test_state_is_a_copy(name, preset):
    engine, pool = world()
    curriculum = make(name, preset)
    run(curriculum, engine, pool, 3)
    before = curriculum.state_dict()
    frozen = repr(before)
    run(curriculum, engine, pool, 3, start=3)
    assert repr(before) == frozen


@every_curriculum
def test_it_documents_itself(name, preset):
    kind = CURRICULA[name]
    module = __import__(kind.__module__, fromlist=["_"]).__doc__
    assert issubclass(kind, Stateful)
    assert kind.__doc__.splitlines()[0].endswith(".")
    for word in ("Idea", "Equation", "Reference", "Deviations"):
        assert word in module
    for field in kind.__dataclass_fields__.values():
        assert not field.init or field.name in kind.__doc__, f"knob {field.name} is undocumented"


def test_the_loop_closes_in_the_simulation():
    """METIS finds more variance than uniform, because its judge learns, and so learns faster."""

    def trained(name, **engine_settings):
        from metis.config import resolve

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
