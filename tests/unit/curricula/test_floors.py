"""Floors: nothing waits longer than it should, the batch stays whole, and settings say so."""

from dataclasses import dataclass

import numpy as np
import pytest

import metis
from metis import Group, MetisError, Pool, Progress, Prompt, Selector, drive
from metis.config import load_config, resolve
from metis.core import Batch, Decision, Engine, measure, rollout
from metis.core.state import Stateful
from metis.curricula.dapo import Dapo
from metis.curricula.floors import Floor, Floors
from metis.curricula.mopps import Mopps


@dataclass
class Stubborn(Stateful):
    """Always takes the first prompts; every third step only measures, if told to."""

    batch: int = 4
    group: int = 2
    measures: bool = False

    def step(self, pool, progress):
        first = list(pool.prompts[: self.batch])
        if self.measures and progress.step % 3 == 0:
            groups = yield from measure(pool.prompts, 2)
            return Batch([], metrics={"select/discarded": 2.0 * len(groups)})
        groups = yield from rollout(first, self.group)
        decisions = [Decision(p, p in first, "next", 0.5) for p in pool.prompts]
        return Batch(groups, decisions=decisions)


class Half(Engine):
    """Prompts whose number is even pass half of their rollouts, others none."""

    def __init__(self):
        self.asked = []

    def rollout(self, prompts, n):
        self.asked.append([prompt.id for prompt in prompts])
        return [
            Group(prompt, tuple(float(i % 2 and int(prompt.id) % 2 == 0) for i in range(n)))
            for prompt in prompts
        ]


def pool(size=40, categories=1):
    return Pool([Prompt(str(i), f"text {i}", f"c{i * categories // size}") for i in range(size)])


def walk(curriculum, prompts, steps, engine=None):
    engine = engine or Half()
    return [drive(curriculum.step(prompts, Progress(i)), engine) for i in range(steps)]


@pytest.mark.parametrize(("size", "epochs"), [(40, 2), (40, 5), (41, 4), (7, 3)])
def test_no_prompt_waits_longer_than_its_epochs(size, epochs):
    """N epochs of `size` prompts, 4 a step, are N size / 4 steps."""
    curriculum, prompts = Floors(Stubborn(), Floor(prompts=epochs)), pool(size)
    last = {prompt.id: -1 for prompt in prompts.prompts}
    for step, batch in enumerate(walk(curriculum, prompts, 150)):
        assert len(batch.groups) == len({group.prompt.id for group in batch.groups}) == 4
        last |= {group.prompt.id: step for group in batch.groups}
        waits = {name: step - seen for name, seen in last.items()}
        assert max(waits.values()) <= epochs * size / 4
        assert batch.metrics["select/waiting"] == max(waits.values())


def test_no_category_waits_longer_than_its_epochs():
    """Half an epoch of 40 prompts, 4 a step, are 5 steps."""
    prompts = pool(40, categories=4)
    curriculum, last = Floors(Stubborn(), Floor(categories=0.5)), dict.fromkeys("0123", -1)
    spent = 0.0
    for step, batch in enumerate(walk(curriculum, prompts, 60)):
        last |= {group.prompt.category[1:]: step for group in batch.groups}
        assert max(step - seen for seen in last.values()) <= 5 and len(batch.groups) == 4
        spent += batch.metrics["select/floor"]
    assert spent == 3 * 60 // 5


@pytest.mark.parametrize(
    ("categories", "floor", "limit"),
    [
        (8, Floor(categories=0.5), 5),  # 8 are due at once, a step has room for 3
        (20, Floor(categories=1), 10),
        (8, Floor(categories=1, prompts=2), 10),  # and one, beside two for prompts
    ],
)
def test_more_categories_than_a_batch_has_room_for_do_not_wait_longer_either(
    categories, floor, limit
):
    prompts, curriculum = pool(40, categories), Floors(Stubborn(), floor)
    curriculum.check(prompts)
    seen = dict.fromkeys(prompts.categories, -1)
    last = dict.fromkeys(prompts.positions, -1)
    for step, batch in enumerate(walk(curriculum, prompts, 150)):
        assert len(batch.groups) == 4 and "0" in {group.prompt.id for group in batch.groups}
        seen |= {group.prompt.category: step for group in batch.groups}
        last |= {group.prompt.id: step for group in batch.groups}
        assert max(step - at for at in seen.values()) <= limit
        assert not floor.prompts or max(step - at for at in last.values()) <= 20


def test_more_categories_than_all_steps_have_room_for_are_refused():
    with pytest.raises(MetisError, match=r"curriculum\.floors\.categories = 0\.5: 20 categories"):
        Floors(Stubborn(), Floor(categories=0.5)).check(pool(40, 20))


def test_slots_of_a_category_that_the_curriculum_takes_itself_are_filled():
    class Turning(Stubborn):
        """Takes from the second category where the floor has slots, else from the first."""

        def step(self, pool, progress):
            first = 0 if self.batch == 4 else 10
            taken = [pool.prompts[first + i] for i in range(self.batch)]
            return Batch((yield from rollout(taken, self.group)))

    batches = walk(Floors(Turning(), Floor(categories=0.5)), pool(40, 4), 20)
    assert [len(batch.groups) for batch in batches] == [4] * 20


def test_one_step_by_hand():
    """A floor of 2 epochs takes 2 of 4 slots; a decision on what it takes is the floor's."""
    curriculum, engine = Floors(Stubborn(), Floor(prompts=2)), Half()
    (batch,) = walk(curriculum, pool(4), 1, engine)
    assert engine.asked[0] == ["0", "1"] and set(engine.asked[1]) == {"2", "3"}
    assert {d.prompt.id: d.reason for d in batch.decisions} == {
        "0": "next",
        "1": "next",
        "2": "floor",
        "3": "floor",
    }
    assert batch.metrics == {"select/floor": 2.0, "select/waiting": 0.0}


def test_a_filter_holds_for_the_floor_too():
    curriculum = Floors(Dapo(batch=4, group=2, multiplier=2), Floor(prompts=4))
    batches = walk(curriculum, pool(), 20)
    assert all(int(group.prompt.id) % 2 == 0 for batch in batches for group in batch.groups)
    generated = sum(2 * batch.metrics["select/candidates"] for batch in batches)
    generated += sum(2 * batch.metrics["select/floor"] for batch in batches)
    trained = sum(2 * len(batch.groups) for batch in batches)
    assert trained + sum(batch.metrics["select/discarded"] for batch in batches) == generated


def test_a_step_that_measures_is_left_alone_and_does_not_count():
    curriculum = Floors(Stubborn(measures=True), Floor(prompts=2))
    batches = walk(curriculum, pool(), 9)
    assert ["select/floor" in batch.metrics for batch in batches] == [False, True, True] * 3
    assert curriculum.clock == 6


def test_nothing_waits_longer_because_some_steps_measure():
    """2 epochs of 40 prompts, 4 a step, are 20 steps that train; every third step measures."""
    curriculum, prompts = Floors(Stubborn(measures=True), Floor(prompts=2)), pool()
    last, steps = dict.fromkeys(prompts.positions, -1), 0
    for batch in walk(curriculum, prompts, 120):
        if batch.groups:
            last |= {group.prompt.id: steps for group in batch.groups}
            assert max(steps - seen for seen in last.values()) <= 20
            steps += 1
    assert steps == 80


def test_state_is_that_of_the_curriculum_too():
    prompts, engine = pool(), Half()
    curriculum = Floors(Mopps(batch=4, group=2, multiplier=2), Floor(prompts=3))
    walk(curriculum, prompts, 5, engine)
    again = Floors(Mopps(batch=4, group=2, multiplier=2), Floor(prompts=3))
    again.load_state_dict(curriculum.state_dict())
    assert again.of.posterior == curriculum.of.posterior and again.clock == 5
    assert np.array_equal(again.last, curriculum.last)


def test_a_recipe_has_floors_for_any_curriculum():
    config = load_config(
        None,
        ["engine=simulated", "curriculum=mopps", "curriculum.floors.prompts=10", "batch=20"],
    )
    assert isinstance(config.curriculum, Floors) and isinstance(config.curriculum.of, Mopps)
    assert config.curriculum.batch == 20 and config.curriculum.slots == 2
    assert config.curriculum.multiplier == 16
    written = config.resolved["curriculum"]
    assert written["floors"] == {"prompts": 10.0, "categories": 0.0} and written["decay"] == 1.0
    again = resolve({key: part for key, part in config.resolved.items() if key != "schema"})
    assert again.resolved == config.resolved and isinstance(again.curriculum, Floors)
    plain = resolve({"engine": "simulated", "curriculum": "mopps"})
    assert isinstance(plain.curriculum, Mopps) and "floors" not in plain.resolved["curriculum"]
    judged = metis.curriculum("metis", batch=16, floors={"categories": 1.0})
    assert judged.judge is judged.of.judge and judged.needs == judged.of.needs


def test_an_instance_with_floors_is_a_curriculum_of_a_run(tmp_path):
    made = Floors(Mopps(batch=8, group=4, decay=0.5), Floor(prompts=4))
    run = metis.train(curriculum=made, engine="simulated", steps=2, out=tmp_path / "run")
    config = run.config["curriculum"]
    assert config["name"] == "mopps" and config["decay"] == 0.5
    assert config["floors"] == {"prompts": 4, "categories": 0.0}


def test_a_selector_serves_it():
    selector = Selector(
        [f"text {i}" for i in range(12)], "mopps", batch=4, group=2, floors={"prompts": 2}
    )
    seen = set()
    for _ in range(40):
        for pick in selector.propose():
            seen.add(pick.key)
            assert selector.observe(pick.id, [1.0, 0.0])
    assert len(seen) == 12 and "select/floor" in selector.metrics()


@pytest.mark.parametrize(
    ("floor", "words"),
    [
        ({"prompts": 1}, r"curriculum\.floors\.prompts = 1"),
        ({"prompts": 1.1}, r"curriculum\.floors\.prompts = 1\.1: it takes 4 of 4 prompts"),
        ({"categories": -1}, r"curriculum\.floors\.categories = -1"),
        ({"prompt": 3}, r"unknown key 'curriculum\.floors\.prompt'"),
        ({"prompts": "many"}, r"curriculum\.floors\.prompts"),
        (3, r"curriculum\.floors = 3: it is a section"),
    ],
)
def test_impossible_floors_are_refused(floor, words):
    with pytest.raises(MetisError, match=words):
        resolve({"batch": 4, "curriculum": {"name": "uniform", "floors": floor}})
