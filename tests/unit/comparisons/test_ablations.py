"""The ablations of `docs/comparing.md` are comparisons that can be trained."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from metis import config
from metis.comparisons import command
from metis.comparisons.plan import parse_variants

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/comparing.md").read_text("utf-8").split("## Ablations")[1]
BLOCKS = re.findall(r"```\n(metis compare .*?)```", PAGE, re.S)


@pytest.fixture
def parsed(monkeypatch):
    monkeypatch.chdir(ROOT)
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    return lambda block: parser.parse_args(shlex.split(block.replace("\\\n", " "))[1:])


def test_there_is_one_for_each_question():
    assert len(BLOCKS) == 5


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[-1])
def test_an_ablation_has_valid_variants(block, parsed):
    chosen = parsed(block)
    recipe, overrides = config.parse_arguments(chosen.settings)
    found = {}
    for variant in parse_variants(chosen.curricula, chosen.variant):
        settings = config.load_config(recipe, [*overrides, *variant.settings], dry=True)
        found[variant.name] = settings.resolved["curriculum"]
    assert found.pop("uniform")["name"] == "uniform"
    assert len(found) >= 2 and all(one["name"] == "metis" for one in found.values())
    assert len({repr(one) for one in found.values()}) == len(found), "variants differ"
