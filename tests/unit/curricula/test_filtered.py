"""A filter after any curriculum: what is trained on, what is counted, and how it is set."""

import json

import pytest

from laws import run
from metis import MetisError, Pool, Progress, Selector, drive
from metis.config import load_config, resolve
from metis.config.objects import as_settings
from metis.curricula.dapo import Dapo
from metis.curricula.filtered import DROPPED, Filtered
from metis.curricula.knapsack import Knapsack
from metis.curricula.metis import Metis
from metis.curricula.ragen2 import Ragen2
from metis.curricula.uniform import Uniform
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.run.meter import Meter


def made(name, filter, batch=8, **settings):
    section = {"name": name, "filter": filter, **settings}
    return resolve({"batch": batch, "group": 4, "curriculum": section}).curriculum


def world(prompts=400):
    engine = SimulatedEngine(Simulation(prompts=prompts, heldout=1))
    return engine, Pool(engine.pool)


def ids(batch):
    return [group.prompt.id for group in batch.groups]


def test_under_uniform_prompts_it_is_dapo():
    whole = resolve({"batch": 8, "group": 4, "curriculum": {"name": "dapo"}}).curriculum
    parts = made("uniform", {"name": "dapo", "multiplier": 3.0, "rounds": 10})
    batches = [run(curriculum, *world(), 5) for curriculum in (whole, parts)]
    assert [ids(batch) for batch in batches[0]] == [ids(batch) for batch in batches[1]]
    for ours, theirs in zip(batches[1], batches[0], strict=True):
        assert ours.metrics == theirs.metrics


@pytest.mark.parametrize("name", ["metis", "mopps", "knapsack"])
def test_only_mixed_groups_are_trained_on_and_the_rest_is_counted(name):
    engine, pool = world()
    meter = Meter(engine)
    batches = run(made(name, {"name": "dapo", "rounds": 1}), engine, pool, 6, through=meter)
    groups = [group for batch in batches for group in batch.groups]
    assert 0 < len(groups) < 6 * 8 and all(group.informative for group in groups)
    trained = sum(len(group.rewards) for group in groups)
    discarded = sum(batch.metrics["select/discarded"] for batch in batches)
    assert meter.counts["rollout/generated"] == trained + discarded == 6 * 8 * 4


def test_it_selects_again_until_the_batch_is_full():
    engine, pool = world()
    curriculum = made("mopps", "dapo")
    batches = run(curriculum, engine, pool, 4)
    assert [len(batch.groups) for batch in batches] == [8] * 4
    rounds = sum(batch.metrics["select/rounds"] for batch in batches)
    assert rounds > 4 and curriculum.selections == rounds
    candidates = [batch.metrics["select/candidates"] for batch in batches]
    assert candidates == [16 * 8 * batch.metrics["select/rounds"] for batch in batches]
    for batch in batches:
        chosen = {each.prompt.id for each in batch.decisions if each.chosen}
        assert chosen == set(ids(batch))
        assert {each.reason for each in batch.decisions} <= {
            *("chosen", "passed over", "dead", "surplus")
        }


def test_the_judge_learns_from_what_is_dropped_too():
    engine, pool = world()
    curriculum = made("metis", {"name": "dapo", "rounds": 1}, trial=0)
    for step in range(3):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
        trained = set(ids(batch))
        fresh = {row.prompt.id for row in batch.judgments if not row.key}
        dropped = {row.prompt.id for row in batch.judgments if row.key == DROPPED}
        assert fresh == trained and dropped and not dropped & trained
        assert len(fresh | dropped) == 8
        engine.update(batch)


def test_replayed_judgments_come_once_a_step():
    engine, pool = world()
    curriculum = made("metis", "dapo", trial=0, judge={"replay": 4})
    for step in range(4):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
        again = {(r.prompt.id, r.key) for r in batch.judgments if r.key.startswith("step")}
        assert len(again) <= 4
        engine.update(batch)


def test_a_share_of_the_variance_is_kept_of_what_was_selected():
    engine, pool = world()
    curriculum = made("mopps", {"name": "ragen2", "keep": 0.5})
    for batch in run(curriculum, engine, pool, 4):
        assert 0 < len(batch.groups) < 8
        assert batch.metrics["select/least"] == min(group.variance for group in batch.groups)


def test_one_word_sets_it_and_what_is_written_sets_it_again(tmp_path):
    words = ["engine=simulated", "curriculum=metis", "curriculum.filter=dapo"]
    config = load_config(None, words)
    assert isinstance(config.curriculum, Filtered) and isinstance(config.curriculum.of, Metis)
    section = config.resolved["curriculum"]["filter"]
    assert section == {"name": "dapo", "multiplier": 1.0, "rounds": 10, "delta": 1e-6}
    written = tmp_path / "config.json"
    written.write_text(json.dumps(config.resolved))
    assert load_config(written, []).curriculum == config.curriculum
    for more in (["curriculum.filter.rounds=2", *words], [*words, "curriculum.filter.rounds=2"]):
        assert load_config(None, more).curriculum.filter.rounds == 2
    short = load_config(None, ["engine=simulated", "curriculum=metis", "filter=dapo"])
    assert short.curriculum == config.curriculum and short.resolved == config.resolved
    assert short.origins["curriculum.filter.name"] == "command line"
    assert load_config(None, [*words, "filter.rounds=2"]).curriculum.filter.rounds == 2
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("engine = 'simulated'\n[curriculum]\nname = 'mopps'\nfilter = 'ragen2'\n")
    config = load_config(recipe, ["curriculum.filter.keep=0.8", "curriculum.floors.prompts=5"])
    assert config.curriculum.of.filter.keep == 0.8
    written.write_text(json.dumps(config.resolved))
    assert load_config(written, []).resolved == config.resolved


def test_an_instance_is_a_section_too():
    given = Filtered(Knapsack(batch=16, group=4), Ragen2(keep=0.7, multiplier=2.0))
    found = resolve(as_settings({"curriculum": given}))
    assert found.curriculum.batch == 16 and found.curriculum.of.batch == 32
    assert isinstance(found.curriculum.filter, Ragen2) and found.curriculum.filter.keep == 0.7


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["curriculum=dapo", "curriculum.filter=dapo"], ["curriculum.filter = 'dapo'", "Dapo"]),
        (["curriculum=speed", "curriculum.filter=ragen2"], ["Speed itself decides"]),
        (["curriculum=oracle", "curriculum.filter=dapo"], ["Oracle itself decides"]),
        (["curriculum.filter=mopps"], ["curriculum.filter = 'mopps'", "dapo, ragen2"]),
        (["curriculum.filter.rounds=2"], ["curriculum.filter", "dapo, ragen2"]),
        (["curriculum.filter=dapo", "curriculum.filter.keep=1"], ["curriculum.filter.keep"]),
        (["curriculum.filter=dapo", "curriculum.filter.batch=9"], ["curriculum.filter.batch"]),
        (["curriculum.filter=os:path"], ["curriculum.filter = 'os:path': known are dapo, ragen2"]),
    ],
)
def test_what_cannot_be_is_refused_by_name(words, parts):
    with pytest.raises(MetisError) as caught:
        load_config(None, ["engine=simulated", *words])
    for part in parts:
        assert part in str(caught.value)


def test_a_recipe_names_it_in_its_section(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("engine = 'simulated'\nfilter = 'dapo'\n")
    with pytest.raises(MetisError, match=r"unknown key 'filter': .*curriculum\.filter"):
        load_config(recipe, [])


def test_a_selector_says_what_is_to_be_trained_on():
    prompts = [f"question {i}" for i in range(40)]
    selector = Selector(prompts, "mopps", batch=4, group=2, filter="dapo", multiplier=2)
    assert selector.filters
    picks = selector.propose()
    assert selector.observe(picks[0].id, [0.0, 1.0])
    assert not selector.observe(picks[1].id, [1.0, 1.0])


def test_the_batch_may_be_set_from_outside_as_floors_do():
    curriculum = Filtered(Uniform(batch=8, group=2), Dapo(multiplier=1.0, rounds=3))
    curriculum.batch = 5
    engine, pool = world()
    assert len(drive(curriculum.step(pool, Progress(0)), engine).groups) <= 5
