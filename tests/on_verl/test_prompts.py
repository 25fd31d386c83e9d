"""Prompts that verl's filter leaves out are counted, of both files."""

import pytest
from transformers import AutoTokenizer
from verl.trainer.ppo.utils import create_rl_dataset

from composing import composed
from integration.conftest import save_tiny
from metis.core import Prompt
from metis.data import parquet
from metis.data.verl_rows import verl_row
from metis.engines.verl.prompts import overlong_notices

LONG = 400


@pytest.fixture
def read(tmp_path):
    """verl's dataset of prompts of so many letters."""
    tokenizer = AutoTokenizer.from_pretrained(save_tiny(tmp_path / "model"))

    def made(name, sizes, config):
        rows = [
            verl_row(
                Prompt(f"{name}:{i}", "?"),
                [{"role": "user", "content": "x" * size}],
                i,
                source="metis",
                ability="",
                split=name,
            )
            for i, size in enumerate(sizes)
        ]
        file = tmp_path / f"{name}.parquet"
        parquet.write(file, rows, {})
        most = config.get(f"{name}_max_samples", -1)
        return create_rl_dataset(str(file), config, tokenizer, None, max_samples=most)

    return made


def settings(*words):
    long = [f"data.max_prompt_length={LONG}", "data.filter_overlong_prompts=True"]
    return composed([*long, "data.filter_overlong_prompts_workers=1", *words]).data


def test_long_prompts_of_both_files_are_counted(read):
    config = settings()
    training = read("train", [5, LONG, 7], config)
    heldout = read("val", [LONG, LONG + 1, 9], config)
    assert (len(training), len(heldout)) == (2, 1)
    first, second = overlong_notices(config, training, heldout)
    assert "data.max_prompt_length = 400: 1 of 3 training prompts are longer and" in first
    assert "2 of 3 held-out prompts" in second and "raise it (engine.max_prompt)" in second


def test_where_nothing_is_left_out_nothing_is_said(read):
    config = settings("data.val_max_samples=2")
    heldout = read("val", [5, 6, 7], config)
    assert len(heldout) == 2
    assert not list(overlong_notices(config, [1, 2], heldout))


def test_files_of_another_kind_are_not_counted():
    class Own(list):
        data_files = ("rows.csv",)

    assert not list(overlong_notices(settings(), Own(), Own()))
