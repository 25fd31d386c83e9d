"""Subjects of an evaluation: a name is not enough, the weights tell them apart."""

import json

import pytest

from metis import MetisError
from metis.core import state
from metis.evals.subject import PIECE, PIECES, digest, find


def model(folder, weights=b"weights"):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def run(folder, base, weights, kind="model", **task):
    best = folder / "checkpoints/best"
    best.mkdir(parents=True)
    engine = {"name": "local", "model": str(base), "max_tokens": 16}
    config = {"engine": engine, "curriculum": {"name": "uniform"}, "task": {"name": "math", **task}}
    (folder / "config.json").write_text(json.dumps(config))
    (best / ("config.json" if kind == "model" else "adapter_config.json")).write_text("{}")
    (best / f"{kind}.safetensors").write_bytes(weights)
    state.save_state(best / "run.state", {"step": 10})
    return find(str(folder), "best")


def test_runs_of_one_name_are_told_apart_by_their_weights(tmp_path):
    base = model(tmp_path / "base")
    first = run(tmp_path / "a/seed-0", base, b"one").about
    second = run(tmp_path / "b/seed-0", base, b"two").about
    again = run(tmp_path / "c/seed-0", base, b"one").about
    assert first == again != second
    assert first | {"weights": ""} == second | {"weights": ""}
    assert str(tmp_path) not in json.dumps(first)


def test_adapters_are_told_apart_by_the_model_they_are_on(tmp_path):
    bases = [model(tmp_path / "base"), model(tmp_path / "x/base", b"other")]
    one, other = (
        run(tmp_path / f"{i}/seed-0", base, b"one", "adapter_model") for i, base in enumerate(bases)
    )
    assert one.about["weights"] != other.about["weights"]
    assert (one.checkpoint.name, one.engine.model) == ("best", str(bases[0]))


def test_a_checkpoint_of_a_run_is_asked_like_the_run(tmp_path):
    found = run(tmp_path / "run", model(tmp_path / "base"), b"one", instruction="Box it.")
    assert find(str(tmp_path / "run/checkpoints/best"), "last") == found
    assert found.engine.model == str(tmp_path / "run/checkpoints/best")
    assert (found.name, find(str(tmp_path / "run")).name) == ("run (best, step 10)",) * 2
    assert find(str(tmp_path / "run"), "10").name == "run (step 10)"


def test_a_model_folder_is_known_by_what_it_holds(tmp_path):
    first, same = model(tmp_path / "a/m"), model(tmp_path / "b/m")
    assert find(str(first), "best").about == find(str(same), "best").about
    assert find(str(first), "best").engine.model == str(first)
    (same / "model.safetensors").write_bytes(b"WEIGHTS")
    assert find(str(first), "best").about != find(str(same), "best").about
    assert str(tmp_path) not in json.dumps(find(str(first), "best").about)


def test_a_snapshot_of_the_hub_is_known_by_its_revision(tmp_path):
    folder = model(tmp_path / "models--o--n/snapshots" / ("a" * 40))
    assert find(str(folder), "best").about["weights"] == "a" * 40


def test_a_run_says_how_it_was_asked_and_scored(tmp_path):
    told = {"instruction": "Box it.", "verify": True, "verify_limit": 0.5}
    base = model(tmp_path / "base")
    found = run(tmp_path / "run", base, b"one", **told)
    assert found.settings["task"] == {"name": "math", **told}
    assert (found.max_tokens, found.run) == (16, tmp_path / "run")
    bare = find(str(base), "best")
    assert bare.settings["task"] == {"name": "math", "verify": False}
    assert (bare.max_tokens, bare.run) == (None, None)


@pytest.mark.parametrize(
    ("file", "message"),
    [("lora_train_meta.json", "LoRA adapters"), ("huggingface/config.json", "has no weights")],
)
def test_a_run_on_verl_whose_weights_cannot_be_read_says_so(tmp_path, file, message):
    folder = tmp_path / "run"
    there = folder / "verl/global_step_2/actor" / file
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    (folder / "verl/latest_checkpointed_iteration.txt").write_text("2")
    config = {"engine": {"name": "verl", "model": "m"}, "curriculum": {"name": "uniform"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(MetisError, match=message):
        find(str(folder), "last")


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE * PIECES, PIECE * PIECES * 2 + 17])
def test_a_digest_sees_the_size_and_both_ends(tmp_path, size):
    path = tmp_path / "w"
    seen = set()
    for change in (None, 0, size - 1):
        content = bytearray(size)
        if change is not None and size:
            content[change] = 1
        path.write_bytes(content)
        seen.add(digest([path]))
    path.write_bytes(bytes(size + 1))
    seen.add(digest([path]))
    assert len(seen) == {0: 2, 1: 3}.get(size, 4)


def test_a_subject_is_moved_to_another_engine_by_the_knobs_that_are_given(tmp_path):
    found = run(tmp_path / "run", model(tmp_path / "base"), b"one")
    moved = found.on(device="cpu", generation=None, vllm_cache=4.0)
    assert (moved.engine.device, moved.engine.vllm_cache) == ("cpu", 4.0)
    assert moved.engine.generation == found.engine.generation
    assert moved.about == found.about
