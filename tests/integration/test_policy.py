"""A policy from a folder: what it reads there, and one clear line for what it cannot."""

import copy
import shutil

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, LlamaConfig

from metis import MetisError
from metis.engines.local.model.policy import Policy


@pytest.fixture
def folder(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "model")


def refusal(folder, settings):
    with pytest.raises(MetisError) as caught:
        Policy(folder, settings)
    message = str(caught.value)
    assert message.startswith(f"engine.model = {str(folder)!r}") and "\n" not in message
    assert not message.endswith((":", ",", " "))
    return message


def test_an_empty_folder_holds_no_model(tmp_path, settings):
    assert "config.json is missing" in refusal(tmp_path, settings)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
@pytest.mark.parametrize("size", [0, 50, -9])
def test_a_truncated_file_is_one_line(folder, settings, name, size):
    path = folder / name
    path.write_bytes(path.read_bytes()[:size])
    assert "cannot be loaded: " in refusal(folder, settings)


def test_a_missing_tokenizer_is_said_in_full(folder, settings):
    (folder / "tokenizer.json").unlink()
    assert "tokenizer" in refusal(folder, settings)


def test_an_error_without_words_is_named(folder, settings, monkeypatch):
    def fail(*_, **__):
        raise ValueError

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", fail)
    assert refusal(folder, settings).endswith("cannot be loaded: ValueError")


def test_a_wrong_value_in_the_config_is_one_line(folder, settings):
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"hidden_size": 32', '"hidden_size": "32"'))
    assert "'hidden_size' expected int" in refusal(folder, settings)


def test_weights_that_are_not_there_are_not_made_up(folder, settings):
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.0.self_attn.q_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert "no weights for 1 of its parts, 'model.layers.0.self_attn.q_proj.weight'" in refusal(
        folder, settings
    )


def test_the_context_is_that_of_the_text(tiny, settings, monkeypatch):
    def text(self, *_, **__):
        config = copy.copy(self)
        config.max_position_embeddings = 77
        return config

    policy = Policy(tiny, settings)
    assert policy.context == 2048
    loaded = policy.network, []
    monkeypatch.setattr(LlamaConfig, "get_text_config", text)
    monkeypatch.setattr("metis.engines.local.model.policy.read_network", lambda folder: loaded)
    assert Policy(tiny, settings).context == 77
