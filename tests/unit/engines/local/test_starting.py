"""Slow parts of a start are announced, with the time that they take."""

import pytest

from metis.engines.local.settings import LocalSettings
from metis.engines.local.starting import compiling, loading, starting_vllm


@pytest.mark.parametrize(
    ("gigabytes", "words"),
    [
        (0.3, "loading org/name (0.3 GB): usually a few seconds, "),
        (16.4, "loading org/name (16.4 GB): usually about 30 s, "),
        (141.1, "loading org/name (141.1 GB): usually about 5 minutes, "),
    ],
)
def test_a_model_takes_as_long_as_it_is_large(tmp_path, gigabytes, words):
    for part in range(2):
        with (tmp_path / f"model-{part}.safetensors").open("wb") as file:
            file.truncate(int(gigabytes / 2 * 1e9))
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    assert loading("org/name", tmp_path).startswith(words)


def test_vllm_says_what_starts_it_sooner():
    assert "one to two minutes; engine.vllm_eager=true" in starting_vllm(LocalSettings(model="m"))
    assert starting_vllm(LocalSettings(model="m", vllm_eager=True)).endswith("under a minute")


def test_compiling_names_the_setting_that_asks_for_it():
    assert compiling().startswith("engine.compile=true: ")
