"""`metis curricula`: listed, explained, and beside a recipe with its survey."""

import json

import pytest

from metis.cli import main
from metis.curricula import CURRICULA
from metis.surveys.measured import POOLS, nearest

SMALL = ["engine=simulated", "engine.prompts=40", "batch=4", "group=4", "steps=20"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def chosen(capsys, *words):
    capsys.readouterr()
    assert main(["curricula", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_all_curricula_and_one_as_json(capsys):
    listed = chosen(capsys)
    assert [each["name"] for each in listed] == list(CURRICULA)
    one = chosen(capsys, "mopps")
    assert one in listed
    assert one["defaults"]["curriculum.multiplier"] > 1 and one["card"]["reference"]


def test_every_curriculum_is_looked_at_with_the_recipe(capsys):
    choice = chosen(capsys, "--for", *SMALL)
    assert [each["name"] for each in choice["curricula"]] == list(CURRICULA)
    assert not any(each["refusal"] for each in choice["curricula"])
    assert choice["epochs"] == 2.0 and choice["survey"] is None and choice["advice"] is None


def test_those_that_would_not_start_are_named_with_the_reason(capsys):
    choice = chosen(capsys, "--for", *SMALL, "engine.skills=1")
    refused = {each["name"]: each["refusal"] for each in choice["curricula"] if each["refusal"]}
    assert "uniform" not in refused
    assert "curriculum.stages" in refused["staged"]


def test_a_recipe_keeps_its_other_settings_and_not_its_curriculum(capsys):
    settings = ["curriculum=staged", 'curriculum.stages=["skill-0"]']
    choice = chosen(capsys, "--for", *SMALL, *settings)
    assert not next(each for each in choice["curricula"] if each["name"] == "metis")["refusal"]


def test_the_survey_of_the_recipe_is_found_and_decides(capsys):
    assert main(["survey", *SMALL, "--prompts", "20", "--out", "surveys/small"]) == 0
    assert main(["survey", *SMALL, "--prompts", "30", "--out", "surveys/large"]) == 0
    choice = chosen(capsys, "--for", *SMALL)
    assert choice["survey"] == "surveys/large"
    assert sum(share["value"] for share in choice["shares"].values()) == pytest.approx(1)
    assert choice["advice"] and choice["measured"]["informative"] == 0.19
    assert chosen(capsys, "--for", *SMALL, "--survey", "surveys/small")["survey"].endswith("small")
    assert main(["curricula", "--for", *SMALL]) == 0
    assert choice["advice"][:40] in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--survey", "x"], "--for"),
        (["metis", "--for", "engine=simulated"], "not both"),
        (["--for", *SMALL, "--survey", "."], "--survey '.'"),
        (["--for", "nothing.toml"], "'nothing.toml'"),
        (["mops"], "'mopps'"),
    ],
)
def test_what_cannot_be_answered_is_refused(capsys, words, named):
    assert main(["curricula", *words]) == 2
    assert named in capsys.readouterr().err


def test_the_nearest_pool_is_so_by_ratio():
    assert [nearest(pool.informative) for pool in POOLS] == list(POOLS)
    assert nearest(0.5).informative == 0.19
    assert nearest(0.001).informative == 0.006
    assert nearest(0.0115).informative == 0.021
