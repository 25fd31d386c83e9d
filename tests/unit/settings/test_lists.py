"""A list of names can be typed as a name, or as names between commas."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis import config
from metis.settings.sections import listed, names


@dataclass
class Settings:
    places: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    title: str = ""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("wandb", ["wandb"]),
        ("wandb,tensorboard", ["wandb", "tensorboard"]),
        ("wandb, tensorboard,", ["wandb", "tensorboard"]),
        ("", []),
        ("trainer.logger=[console,wandb]", ["trainer.logger=[console,wandb]"]),
    ],
)
def test_commas_part_names_unless_brackets_hold_them(text, parts):
    assert names(text) == parts


@given(st.lists(st.text("abc/.-= ", min_size=1).map(str.strip).filter(bool)))
def test_names_joined_by_commas_come_back(parts):
    assert names(",".join(parts)) == parts


def test_only_a_text_for_a_list_of_names_is_taken_apart():
    raw = {"places": "a,b", "levels": "1,2", "title": "a,b"}
    assert listed(Settings, raw) == {"places": ["a", "b"], "levels": "1,2", "title": "a,b"}
    assert listed(Settings, {"places": ["a,b"], "other": "c"}) == {
        "places": ["a,b"],
        "other": "c",
    }


def test_it_holds_for_every_section():
    resolved = config.load_config(
        None,
        [
            *("engine=verl", "engine.max_tokens=64"),
            "engine.overrides=trainer.logger=[console,wandb]",
            *("curriculum=e2h", "curriculum.order=easy,hard"),
        ],
    ).resolved
    assert resolved["engine"]["overrides"] == ["trainer.logger=[console,wandb]"]
    assert resolved["curriculum"]["order"] == ["easy", "hard"]
