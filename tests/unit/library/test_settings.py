"""Keyword arguments as the settings of a recipe, and as words of a command."""

import pytest

import metis
from metis import MetisError
from metis.config.recipe import split_override
from metis.curricula import CURRICULA
from metis.library.settings import flattened, words


@pytest.mark.parametrize(
    "value",
    [
        *(5, 0.25, 1e-6, True, "uniform", "true", "1", "a b", 'with "quotes"', "é, x=1", ""),
        *([1, 2], ["a", "b,c"], {"easy": 0.5, "a key": [1]}, "line\nline", "🙂"),
    ],
)
def test_a_value_is_read_back_from_its_word(value):
    (word,) = words([("task.knob", value)])
    assert split_override(word) == ("task.knob", value)


def test_words_are_plain_where_they_can_be():
    given = {"curriculum": {"name": "metis", "judge": {"scale": "variance"}}, "seed": None}
    assert words(flattened(given)) == ["curriculum=metis", "curriculum.judge.scale=variance"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"train_dataset": []}, "unknown key 'train_dataset': that is 'data' here"),
        ({"reward_funcs": len}, "unknown key 'reward_funcs': that is 'reward' here"),
        ({"reward": len}, "arithmetic has no such setting, file have|has"),
    ],
)
def test_what_is_called_otherwise_elsewhere_is_answered(settings, said, tmp_path):
    with pytest.raises(MetisError, match=said):
        metis.train(out=tmp_path / "run", **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_takes_classes_and_refuses_what_it_would_drop(tmp_path, monkeypatch):
    from metis.library import comparing

    seen = []
    monkeypatch.setattr(
        comparing, "conduct", lambda chosen, console: seen.append(chosen) or (0, [])
    )
    given = {"out": tmp_path / "c", "show": False}
    dapo = CURRICULA["dapo"]
    metis.compare(
        curricula=[dapo, "metis"], variants={"a": {"seed": 1, "steps": 2}}, seeds=4, **given
    )
    (chosen,) = seen
    assert (chosen.curricula, chosen.seeds) == ("dapo,metis", "4")
    assert chosen.variant == ["a:seed=1,steps=2"]
    metis.compare(seeds=range(3), **given)
    assert seen[1].seeds == "0,1,2"
    with pytest.raises(MetisError, match="has settings of its own"):
        metis.compare(curricula=[dapo(batch=4, group=4)], **given)
    with pytest.raises(MetisError, match="commas"):
        metis.compare(variants={"a": {"task": {"instruction": "x,y=1"}}}, **given)
