"""`metis.train` and `metis.curriculum`: the commands as calls."""

import gc
import importlib
import json
import pkgutil
import weakref
from dataclasses import dataclass, field

import pytest

import metis
from metis import MetisError, Prompt, loop
from metis.library import training
from metis.tasks.base import SingleTurn

SMALL = {
    "engine": "simulated",
    "curriculum": "uniform",
    "batch": 4,
    "group": 4,
    "evaluate": 2,
    "show": False,
}


def test_a_run_is_trained_and_read(tmp_path):
    seen = []
    run = metis.train(
        out=tmp_path / "run", steps=4, on_step=lambda step, metrics: seen.append(step), **SMALL
    )
    assert run.finished and seen == [0, 1, 2, 3, 4]
    assert [row["step"] for row in run.metrics] == seen
    assert run.accuracy == run.metrics[-1]["eval/accuracy"]
    assert run.config["curriculum"]["name"] == "uniform"


def test_the_same_call_resumes_and_then_returns_what_is_there(tmp_path):
    whole = metis.train(out=tmp_path / "whole", steps=6, **SMALL)

    class Enough(Exception):
        pass

    def stop(step, metrics):
        if step == 3:
            raise Enough

    with pytest.raises(Enough):
        metis.train(out=tmp_path / "run", steps=6, on_step=stop, checkpoints={"every": 3}, **SMALL)
    rest = []
    run = metis.train(
        out=tmp_path / "run",
        steps=6,
        on_step=lambda step, metrics: rest.append(step),
        checkpoints={"every": 3},
        **SMALL,
    )
    assert rest == [4, 5, 6] and run.metrics == whole.metrics
    again = metis.train(
        out=tmp_path / "run",
        steps=6,
        on_step=lambda step, metrics: pytest.fail("there was nothing to do"),
        checkpoints={"every": 3},
        **SMALL,
    )
    assert again.finished and again.metrics == whole.metrics


def test_sections_may_be_mappings_and_a_recipe_may_be_changed(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('engine = "simulated"\nbatch = 4\n[curriculum]\nname = "dapo"\n')
    run = metis.train(
        recipe,
        out=tmp_path / "run",
        steps=1,
        curriculum={"name": "metis", "judge": {"scale": "variance"}, "multiplier": 2},
        show=False,
    )
    assert run.config["curriculum"]["multiplier"] == 2
    assert run.config["batch"] == 4


@dataclass
class Weighted:
    """A task with a mapping among its knobs."""

    weights: dict[str, float] = field(default_factory=dict)
    rewards = "binary"

    def training(self):
        return [Prompt("a:1", "one"), Prompt("a:2", "two")]

    def heldout(self):
        return [Prompt("a:3", "three")]

    def episode(self, prompt):
        return SingleTurn([{"role": "user", "content": prompt.text}], len)


def test_mappings_among_knobs_are_kept_whole(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(training, "start", lambda found, *rest: seen.append(found) or 0)
    weights = {"c.d": 2.0, "name": 1.0}
    metis.train(task=Weighted(weights), batch=1, out=tmp_path / "run", show=False)
    assert seen[0].resolved["task"]["weights"] == weights
    with pytest.raises(MetisError, match="give a name or a mapping"):
        metis.train(model="x", engine=5, out=tmp_path / "run")


def test_a_run_leaves_nothing_behind_in_memory(tmp_path, monkeypatch):
    made = []
    build = loop.Run.build.__func__

    def remember(cls, config, say=print):
        run = build(cls, config, say)
        made.append(weakref.ref(run.engine))
        return run

    monkeypatch.setattr(loop.Run, "build", classmethod(remember))
    metis.train(out=tmp_path / "run", steps=1, **SMALL)
    gc.collect()
    assert made[0]() is None and gc.get_freeze_count() == 0


def test_bad_settings_are_an_error_before_anything_is_made(tmp_path):
    with pytest.raises(MetisError, match="unknown key 'stepz'"):
        metis.train(out=tmp_path / "run", stepz=1, **SMALL)
    assert not (tmp_path / "run").exists()


def test_a_run_is_drawn_as_the_command_draws_it(tmp_path, capsys):
    metis.train(out=tmp_path / "run", steps=2, **{**SMALL, "show": True})
    assert "held-out accuracy" in capsys.readouterr().out


def test_notices_of_an_unseen_run_are_logged(tmp_path, caplog):
    from metis.library.training import Unseen

    with caplog.at_level("INFO", logger="metis"):
        Unseen().notice(3, "look here")
    assert "step 3: look here" in caplog.text


def test_a_curriculum_by_its_name():
    made = metis.curriculum("metis", preset="paper", batch=64, group=8)
    assert (made.batch, made.group, made.explore) == (64, 8, 0)
    assert metis.curriculum("uniform").batch == 32
    with pytest.raises(MetisError, match="did you mean"):
        metis.curriculum("metiz")


def test_train_stays_callable_whatever_is_imported():
    for module in pkgutil.iter_modules(metis.__path__):
        if module.name != "trl":  # needs its extra; tests/on_trl imports it
            importlib.import_module(f"metis.{module.name}")
    assert callable(metis.train) and callable(metis.curriculum)


def test_every_public_name_is_there_and_documented():
    for name in metis.__all__:
        assert getattr(metis, name) is not None
    assert set(metis.__all__) <= set(dir(metis))
    with pytest.raises(AttributeError):
        metis.nonsense  # noqa: B018


def test_the_run_folder_is_the_command_s(tmp_path):
    from metis.cli import main

    metis.train(out=tmp_path / "a", steps=2, **SMALL)
    words = ["engine=simulated", "curriculum=uniform", "batch=4", "group=4", "evaluate=2"]
    assert main(["train", *words, "steps=2", "--out", str(tmp_path / "b")]) == 0
    for name in ("config.json", "metrics.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert json.loads((tmp_path / "a/config.json").read_text())["steps"] == 2


def test_runs_of_several_seeds_may_share_their_prompts(tmp_path):
    def tested(seed, **settings):
        run = metis.train(
            out=tmp_path / f"{seed}-{settings}", seed=seed, steps=2, **SMALL, **settings
        )
        return [row["eval/accuracy"] for row in run.metrics if "eval/accuracy" in row]

    first, second = tested(0, data_seed=3), tested(1, data_seed=3)
    assert first[0] == second[0] and first[-1] != second[-1]
    assert tested(0)[0] != first[0]
    assert tested(3, data_seed=3) == tested(3)
    with pytest.raises(MetisError, match="data_seed = -1"):
        tested(0, data_seed=-1)
