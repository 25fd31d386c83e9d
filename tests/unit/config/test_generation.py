"""What generates rollouts where it is left open: by the device, what is installed, and the run."""

import importlib.machinery
import json
import re
import sys
import types
from dataclasses import replace

import pytest

from metis.cli import main
from metis.comparisons.schedule import Schedule
from metis.config import generation, load_config
from metis.core import state
from metis.engines.local.estimate.step import Device

pytest.importorskip("torch")
speed = pytest.importorskip("metis.engines.local.estimate.speed")

GPU = Device(True, 140e9, 130e9, 6.5e14, 6.5e14, 4e12)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a model of 135M parameters, without weights that could be loaded."""
    monkeypatch.delenv(generation.SHARED, raising=False)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    config = {"vocab_size": 50_000, "num_hidden_layers": 30, "hidden_size": 576}
    config |= {"num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536}
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(config))
    header = json.dumps({"all": {"dtype": "BF16", "shape": [1000, 1000, 135]}}).encode()
    (made / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return made


@pytest.fixture
def gpu(monkeypatch):
    """A GPU and vLLM, as far as anyone looks before a model is loaded."""
    module = types.ModuleType("vllm")
    module.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(speed, "on_gpu", lambda name: name != "cpu")
    monkeypatch.setattr(speed, "measured", lambda *_: GPU)


LONG = ("steps=100", "batch=128", "engine.max_tokens=1024", "curriculum=uniform")


def config_of(folder, *words):
    return load_config(None, [f"engine.model={folder}", "task=arithmetic", *words])


def chosen(config):
    said = []
    found = generation.chosen(config, said.append)
    return found.engine.generation, "".join(said)


def test_a_long_run_is_generated_by_vllm_and_a_short_one_is_not(folder, gpu):
    config = config_of(folder, *LONG)
    found, said = chosen(config)
    assert found == "vllm"
    assert re.fullmatch(
        r"engine.generation = auto: vllm, which saves about [\d,]+ s and starts in 90 s", said
    )
    assert config.resolved["engine"]["generation"] == "auto", "what was asked is kept"
    found, said = chosen(config_of(folder, *LONG, "steps=1"))
    assert found == "transformers" and "since vLLM starts in 90 s and would save" in said


def test_a_quick_start_of_vllm_is_paid_sooner(folder, gpu):
    by_steps = {}
    for eager in ("false", "true"):
        words = [*LONG, f"engine.vllm_eager={eager}"]
        steps = range(1, 100)
        by_steps[eager] = next(
            n for n in steps if chosen(config_of(folder, *words, f"steps={n}"))[0] == "vllm"
        )
    assert by_steps["true"] < by_steps["false"]


@pytest.mark.parametrize("limit", ["tokens", "processed", "seconds"])
def test_a_budget_of_another_kind_is_as_long_as_its_steps(folder, gpu, limit):
    few, many = {"seconds": (60, 36_000)}.get(limit, (100_000, 100_000_000))
    words = [*LONG, "steps=0"]
    assert chosen(config_of(folder, *words, f"{limit}={few}"))[0] == "transformers"
    assert chosen(config_of(folder, *words, f"{limit}={many}"))[0] == "vllm"
    both = [*LONG, "steps=1", f"{limit}={many}"]
    assert chosen(config_of(folder, *both))[0] == "transformers", "the first limit counts"


def test_vllm_is_for_a_gpu_where_it_is_installed_and_fits(folder, gpu, monkeypatch):
    long = config_of(folder, *LONG)
    assert chosen(config_of(folder, *LONG, "engine.device=cpu")) == ("transformers", "")
    monkeypatch.setattr(speed, "measured", lambda *_: replace(GPU, free=30e9))
    found, said = chosen(long)
    assert found == "transformers" and "of which 30 are free" in said
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert chosen(long) == (
        "transformers",
        "engine.generation = auto: transformers, since vLLM is not installed",
    )


def test_a_program_that_is_named_is_not_questioned(folder, gpu):
    for name in ("vllm", "transformers"):
        config = config_of(folder, *LONG, f"engine.generation={name}")
        assert generation.chosen(config, pytest.fail) is config


def test_a_model_of_unknown_size_is_generated_from_without_vllm(folder, gpu):
    (folder / "config.json").write_text("{}")
    assert chosen(config_of(folder, *LONG))[0] == "transformers"


def test_runs_that_share_a_device_have_no_vllm(folder, gpu, monkeypatch, tmp_path):
    def shared(jobs, gpus):
        schedule, given = Schedule(tmp_path, jobs, gpus, None, None), []
        monkeypatch.setattr(
            "subprocess.Popen", lambda _, env, **__: given.append(env) or types.SimpleNamespace()
        )
        schedule._start("run", [], 0, None)
        return given[0].get(generation.SHARED)

    assert shared(1, []) is shared(2, ["0", "1"]) is None
    monkeypatch.setenv(generation.SHARED, shared(2, []))
    found, said = chosen(config_of(folder, *LONG))
    assert found == "transformers" and "other runs share its device" in said


def test_rollouts_of_a_survey_are_all_that_counts(folder, gpu):
    config = config_of(folder, *LONG)
    few = generation.chosen_for_rollouts(config, 4, str)
    many = generation.chosen_for_rollouts(config, 100_000, str)
    assert (few.engine.generation, many.engine.generation) == ("transformers", "vllm")


def begun(out, asked, engine, began=None):
    """A run folder with one checkpoint."""
    checkpoint = out / "checkpoints/step-000001"
    checkpoint.mkdir(parents=True)
    settings = {"engine": {"name": engine, "generation": asked}, "curriculum": {}}
    (out / "config.json").write_text(json.dumps(settings))
    state.save_state(checkpoint / "run.state", {})
    state.save_state(checkpoint / "engine.state", {"generation": began} if began else {})
    return out


def test_a_resumed_run_keeps_what_it_began_with(folder, gpu, tmp_path):
    short, long = (config_of(folder, *LONG, f"steps={n}") for n in (1, 100))
    for began in ("vllm", "transformers"):
        out = begun(tmp_path / began, "auto", "local", began)
        for config in (short, long):
            found = generation.continued(config, out)
            assert found.engine.generation == began
            assert found.resolved == config.resolved
    assert generation.continued(long, tmp_path / "new") is long
    damaged = tmp_path / "vllm/checkpoints/step-000001/engine.state"
    damaged.unlink()
    with pytest.raises(Exception, match="is incomplete"):
        generation.continued(long, tmp_path / "vllm")


def test_a_folder_that_names_what_generates_is_gone_on_with(folder, gpu, tmp_path):
    config = config_of(folder, *LONG)
    for named in ("vllm", "transformers"):
        found = generation.continued(config, begun(tmp_path / named, named, "local"))
        assert found.engine.generation == found.resolved["engine"]["generation"] == named
    verl = begun(tmp_path / "verl", "vllm", "verl")
    assert generation.continued(config, verl) is config, "which is refused for its engine"


def test_a_dry_run_says_which_and_why(folder, gpu, tmp_path, capsys):
    def line(*words):
        command = ["train", "--dry-run", "--out", str(tmp_path / "run")]
        assert main([*command, f"engine.model={folder}", "task=arithmetic", *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if line.startswith("# generation: ")]

    [found] = line(*LONG)
    assert found.startswith("# generation: vllm, which saves about")
    assert line(*LONG, "engine.device=cpu") == [
        "# generation: transformers, since vLLM needs a GPU"
    ]
    assert line(*LONG, "engine.generation=vllm") == []
