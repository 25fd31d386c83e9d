"""Checkpoints of a run by name: best, last, a step, or the folder itself."""

import json

import pytest

from metis import MetisError
from metis.core import state
from metis.engines import model_files
from metis.run import models


def checkpoint(run, name, step, kind="model"):
    folder = run / "checkpoints" / name
    folder.mkdir(parents=True)
    (folder / ("config.json" if kind == "model" else "adapter_config.json")).write_text("{}")
    (folder / f"{kind}.safetensors").write_bytes(b"weights")
    state.save_state(folder / "run.state", {"step": step})
    return folder


def make_run(run, engine="local"):
    run.mkdir(parents=True)
    config = {"engine": {"name": engine, "model": "base"}, "curriculum": {"name": "uniform"}}
    (run / "config.json").write_text(json.dumps(config))
    return run


@pytest.fixture
def run(tmp_path):
    folder = make_run(tmp_path / "run")
    checkpoint(folder, "step-000010", 10)
    checkpoint(folder, "step-000020", 20)
    return folder


def test_none_named_is_the_best_or_else_the_last(run):
    assert models.find_checkpoint(run).path.name == "step-000020"
    best = checkpoint(run, "best", 7)
    found = models.find_checkpoint(run)
    assert (found.path, found.step, str(found)) == (best, 7, "best checkpoint, step 7")
    assert str(models.find_checkpoint(run, "last")) == "last checkpoint, step 20"


def test_a_step_is_found_also_where_only_the_best_is_left_of_it(run):
    assert models.find_checkpoint(run, "10").path.name == "step-000010"
    checkpoint(run, "best", 7)
    assert models.find_checkpoint(run, "7").path.name == "best"
    with pytest.raises(MetisError, match=r"no checkpoint '8': use best, last or .* 7, 10, 20"):
        models.find_checkpoint(run, "8")
    with pytest.raises(MetisError, match="no checkpoint 'first'"):
        models.find_checkpoint(run, "first")


def test_what_is_not_there_is_told_with_what_is(run, tmp_path):
    with pytest.raises(MetisError, match=r"no best checkpoint.*--checkpoint last.*base"):
        models.find_checkpoint(run, "best")
    with pytest.raises(MetisError, match=r"no checkpoint yet: train it, or name .* base"):
        models.find_checkpoint(make_run(tmp_path / "new"))
    with pytest.raises(MetisError, match="the simulated engine, which has no model"):
        models.find_checkpoint(make_run(tmp_path / "simulated", "simulated"))


def test_a_checkpoint_s_folder_is_known_as_its_run_s(run):
    found = models.find_checkpoint(run / "checkpoints/step-000010", "last")
    assert (found.run, found.step, found.name) == (run, 10, "10")
    best = checkpoint(run, "best", 7)
    assert models.find_checkpoint(best).name == "best"


def test_a_model_folder_is_no_run(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert models.find_checkpoint(tmp_path) is None
    assert models.find_checkpoint(tmp_path / "absent") is None
    assert models.run_settings(tmp_path) is None


def test_a_run_is_a_model(run, tmp_path):
    said = []
    best = checkpoint(run, "best", 7)
    assert model_files.model(str(run), said.append) == best
    assert said == [f"engine.model = {str(run)!r}: its best checkpoint, step 7"]
    last = run / "checkpoints/step-000020"
    assert model_files.model(str(last), said.append) == last
    assert len(said) == 1


def test_adapters_are_not(tmp_path):
    run = make_run(tmp_path / "run")
    adapter = checkpoint(run, "step-000005", 5, "adapter_model")
    for name in (run, adapter):
        with pytest.raises(MetisError, match=r"LoRA adapters.*metis export .*run DIR"):
            model_files.model(str(name))


def verl_checkpoint(run, name, *files):
    folder = run / "verl" / name
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"{}")
    return folder


def test_verl_s_checkpoints_are_found_up_to_the_last_that_is_whole(tmp_path):
    run = make_run(tmp_path / "run", "verl")
    whole = "actor/huggingface/config.json", "actor/huggingface/model.safetensors"
    for step in (2, 4, 6):
        verl_checkpoint(run, f"global_step_{step}", *whole)
    (run / "verl/latest_checkpointed_iteration.txt").write_text("4")
    found = models.find_checkpoint(run)
    assert (found.step, found.name) == (4, "last")
    assert model_files.model(str(run), lambda _: None) == found.path / "actor/huggingface"
    best = verl_checkpoint(run, "best", whole[0])
    state.save_state(best / "metis.state", {"best": (2, 0.5)})
    with pytest.raises(MetisError, match=r"has no weights that .*: .*metis export"):
        model_files.model(str(run))


def test_a_model_is_named_by_its_id_or_by_its_folder(tmp_path):
    snapshot = tmp_path / "hub/models--o--n/snapshots/abc"
    assert model_files.origin("o/n", snapshot) == "o/n"
    assert model_files.origin("smollm2-135m", snapshot) == str(snapshot)
    assert model_files.origin(str(tmp_path), tmp_path) == str(tmp_path)
    assert model_files.origin("m.gguf", snapshot) == str(snapshot)
