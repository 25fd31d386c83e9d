"""The judge of a run: by its name and with settings of its own, however they are given."""

import json
import sys
from dataclasses import dataclass, field
from itertools import permutations

import pytest

import metis
from metis import MetisError
from metis.config import load_config, resolve
from metis.config.objects import as_settings
from metis.core.state import Stateful
from metis.curricula.judges import JUDGES, Direct, Judge, Prediction, Predictions, Readout, Reason
from metis.curricula.metis import Metis
from metis.curricula.probe import Probe
from metis.settings.keys import FORMERLY, dotted_names

OWN = """
from dataclasses import dataclass, field
from metis.core.state import Stateful
from metis.curricula.judges import Judge, Prediction, Predictions

@dataclass
class Mine(Stateful, Judge):
    hope: float = 0.15
    seen: list = field(init=False, default_factory=list)

    def predict(self, candidates, batch, pool, progress):
        yield from ()
        self.seen.append(progress.step)
        return Predictions([Prediction(p, self.hope, float(len(p.text))) for p in candidates])

@dataclass
class Unasked(Stateful):
    def predict(self, candidates, batch, pool, progress): ...

class Settingless(Judge):
    def predict(self, candidates, batch, pool, progress): ...

nothing = 3
"""
SHORT = ["engine=simulated", "steps=3", "batch=4", "group=2", "engine.prompts=40"]


@dataclass
class Hopeful(Stateful, Judge[Predictions]):
    hope: float = 0.1
    steps: int = field(init=False, default=0)

    def predict(self, candidates, batch, pool, progress):
        yield from ()
        self.steps += 1
        return Predictions([Prediction(prompt, self.hope, 0.0) for prompt in candidates])


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a module that no other test has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_judges.py").write_text(OWN)
    yield tmp_path
    sys.modules.pop("own_judges", None)


@pytest.fixture
def recipe(tmp_path):
    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(f"engine = 'simulated'\n{text}")
        return path

    return write


def judge(*words, path=None):
    return load_config(path, words).resolved["curriculum"]["judge"]


DEFAULTS = {
    "direct": {"scale": "variance", "examples": 3, "replay": None, "share": 0.25, "train": 1.0},
    "reason": {
        "examples": 3,
        "weight": 0.01,
        "ema": 0.95,
        "failures": "zero",
        "max_tokens": 512,
        "temperature": 1.0,
    },
    "readout": {"regression": "logistic", "layer": 2 / 3, "window": 20},
    "history": {"enough": 8},
    "gaussian_process": {"layer": 2 / 3},
}


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_is_chosen_by_its_name(recipe, name):
    wanted = {"name": name, **DEFAULTS[name]}
    for section in (name, {"name": name}):
        config = resolve({"curriculum": {"name": "metis", "judge": section}})
        assert config.resolved["curriculum"]["judge"] == wanted
        assert type(config.curriculum.judge) is JUDGES[name]
    assert judge("engine=simulated", f"curriculum.judge={name}") == wanted
    assert judge("engine=simulated", f"curriculum.judge.name={name}") == wanted
    for text in (f"[curriculum]\njudge = '{name}'", f"[curriculum.judge]\nname = '{name}'"):
        assert judge(path=recipe(text)) == wanted


def test_the_order_of_settings_does_not_matter():
    words = ["curriculum=metis", "curriculum.judge=reason", "curriculum.judge.ema=0.5"]
    words += ["curriculum.preset=paper", "curriculum.explore=0.25"]
    found = [
        load_config(None, ["engine=simulated", *order]).resolved for order in permutations(words)
    ]
    assert all(each == found[0] for each in found)
    curriculum = found[0]["curriculum"]
    assert (curriculum["judge"]["ema"], curriculum["explore"]) == (0.5, 0.25)
    assert (curriculum["judge"]["name"], curriculum["preset"]) == ("reason", "paper")


def test_settings_are_the_judge_s_whichever_way_it_was_named(recipe):
    named = recipe("[curriculum]\njudge = 'reason'")
    assert judge("curriculum.judge.ema=0.5", path=named)["ema"] == 0.5
    section = recipe("[curriculum.judge]\nname = 'reason'\nema = 0.5")
    for words in (["curriculum.judge=reason"], ["curriculum.judge.name=reason"]):
        again = judge(*words, "curriculum.judge.weight=0.2", path=section)
        assert (again["ema"], again["weight"]) == (0.5, 0.2), "the same judge keeps its settings"


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("[curriculum.judge]\nshare = 0.5", "direct"),
        ("[curriculum]\npreset = 'paper'\n[curriculum.judge]\nema = 0.5", "reason"),
        ("[curriculum]\nname = 'probe'\n[curriculum.judge]\nlayer = 0.5", "readout"),
    ],
)
def test_a_judge_that_the_recipe_has_without_naming_it_keeps_its_settings(recipe, section, name):
    path = recipe(section)
    words = [f"curriculum.judge={name}", f"curriculum.judge.name={name}"]
    assert all(judge(word, path=path) == judge(path=path) for word in words)
    assert 0.5 in judge(path=path).values()
    other = "reason" if name != "reason" else "direct"
    assert judge(f"curriculum.judge={other}", path=path) == {"name": other, **DEFAULTS[other]}


@pytest.mark.parametrize("word", ["curriculum.judge=direct", "curriculum.judge.name=direct"])
def test_another_judge_drops_the_recipe_s_settings_of_the_old_one(recipe, word):
    old = recipe(
        "[curriculum]\nexplore = 0.3\n[curriculum.judge]\nname = 'reason'\nexamples = 7\nema = 0.5"
    )
    config = load_config(old, [word])
    assert config.resolved["curriculum"]["judge"] == {"name": "direct", **DEFAULTS["direct"]}
    assert config.curriculum.explore == 0.3
    assert judge(word, "curriculum.judge.examples=5", path=old)["examples"] == 5


def test_another_preset_brings_its_judge_and_another_curriculum_its_own(recipe):
    old = recipe("[curriculum]\nname = 'metis'\n[curriculum.judge]\nname = 'direct'\nshare = 0.5")
    assert judge("curriculum.preset=paper", path=old) == {"name": "reason", **DEFAULTS["reason"]}
    probe = {"name": "readout", **DEFAULTS["readout"], "regression": "ridge", "layer": 1.0}
    assert judge("curriculum=probe", path=old) == probe
    assert "judge" not in load_config(old, ["curriculum=uniform"]).resolved["curriculum"]


def test_the_paper_preset_is_algorithm_1_and_a_setting_changes_just_itself():
    plain = resolve({"curriculum": {"preset": "paper"}}).resolved["curriculum"]
    assert plain == {
        "name": "metis",
        "preset": "paper",
        "multiplier": 8,
        "explore": 0.0,
        "trial": 0,
        "judge": {"name": "reason", **DEFAULTS["reason"]},
    }
    changed = resolve({"curriculum": {"preset": "paper", "judge": {"failures": "last"}}})
    assert changed.resolved["curriculum"] == {
        **plain,
        "judge": {**plain["judge"], "failures": "last"},
    }


def test_the_readout_preset_has_no_trial_and_the_recommended_one_is_direct():
    config = resolve({"curriculum": {"preset": "readout"}})
    read = config.resolved["curriculum"]
    assert (config.curriculum.judge_trial.steps, read["explore"]) == (0, 0.1)
    assert read["judge"] == {"name": "readout", **DEFAULTS["readout"]}
    usual = resolve({})
    assert usual.curriculum.judge_trial.steps == 16
    section = usual.resolved["curriculum"]
    assert (section["preset"], section["judge"]["name"]) == ("recommended", "direct")


def test_a_trial_that_was_not_set_follows_the_judge_in_a_run_from_the_config_of_another():
    document = resolve({}).resolved
    document["curriculum"]["judge"] = "readout"
    del document["schema"]
    config = resolve(document)
    assert document["curriculum"]["trial"] is config.resolved["curriculum"]["trial"] is None
    assert config.curriculum.judge_trial.steps == 0


def test_a_preset_with_another_judge_keeps_what_it_says_of_the_rest():
    config = resolve({"curriculum": {"preset": "paper", "judge": "direct"}})
    curriculum = config.resolved["curriculum"]
    assert (curriculum["explore"], curriculum["trial"]) == (0.0, 0)
    assert curriculum["judge"] == {"name": "direct", **DEFAULTS["direct"]}


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"preset": "paper"},
        {"preset": "paper", "judge": "direct"},
        {"preset": "readout", "judge": {"window": 3}},
        {"judge": {"name": "reason", "weight": 0.1}},
        {"judge": {"scale": "passes", "replay": 0}, "trial": 5},
        {"judge": f"{__name__}:Hopeful"},
        {"name": "probe"},
        {"name": "probe", "judge": {"name": "direct", "share": 0.1}},
    ],
)
def test_the_resolved_document_resolves_to_itself(section):
    document = resolve({"curriculum": section}).resolved
    plain = json.loads(json.dumps({k: v for k, v in document.items() if k != "schema"}))
    assert resolve(plain).resolved == document
    assert resolve(plain).curriculum == resolve({"curriculum": section}).curriculum


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["curriculum.judge=guess"], ["curriculum.judge = 'guess'", "known are direct"]),
        (["curriculum.judge=direkt"], ["did you mean 'direct'?"]),
        (["curriculum.judge=3"], ["curriculum.judge = 3", "direct, reason, readout"]),
        (["curriculum.judge.ema=0.5"], ["'curriculum.judge.ema'", "direct has no", "reason has"]),
        (
            ["curriculum.judge=reason", "curriculum.judge.share=0.5"],
            ["'curriculum.judge.share'", "reason has no", "direct has"],
        ),
        (
            ["curriculum.preset=readout", "curriculum.judge.examples=2"],
            ["readout has no", "direct, reason have"],
        ),
        (["curriculum.judge=readout", "curriculum.judge.wndow=2"], ["curriculum.judge.window"]),
        (["curriculum=uniform", "curriculum.judge=direct"], ["uniform has no", "metis, probe"]),
        (["curriculum=uniform", "curriculum.judge.share=1"], ["uniform has no", "metis, probe"]),
        (["curriculum.judge=reason", "curriculum.judge.max_tokens=x"], ["judge.max_tokens = 'x'"]),
        (["curriculum.judge=readout", "curriculum.judge.layer=0"], ["judge.layer = 0", "share"]),
        (["curriculum.explore=0"], ["curriculum.trial = 16"]),
    ],
)
def test_what_a_judge_does_not_have_is_refused_with_the_one_that_has_it(words, parts):
    with pytest.raises(MetisError) as caught:
        load_config(None, ["engine=simulated", *words])
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("key", FORMERLY)
def test_what_is_gone_is_answered_with_its_replacement(key):
    """None of them is a setting now, and what is named as the replacement is one."""
    now = {key for kind in JUDGES.values() for key in dotted_names(kind, "curriculum.judge.")}
    assert key not in {*dotted_names(Metis, "curriculum."), *now}
    with pytest.raises(MetisError) as caught:
        load_config(None, ["engine=simulated", f"{key}=1"])
    assert str(caught.value) == f"unknown key {key!r}: {FORMERLY[key]}"
    words = [word.strip(":,()") for word in FORMERLY[key].split()]
    assert {word for word in words if word.startswith("curriculum.judge.")} <= now


JUDGE_HAD = "mode layout loss reward offsets baseline target aggregate ratio"
METIS_HAD = "examples exemplars ema memory anchor order failures ties warmup replay"
PREFERENCE_HAD = "readout depths mix harder regression window"


def test_every_setting_of_before_has_an_answer():
    before = {f"curriculum.{name}" for name in METIS_HAD.split()}
    before |= {f"curriculum.judge.{name}" for name in JUDGE_HAD.split()}
    before |= {f"curriculum.preference.{name}" for name in PREFERENCE_HAD.split()}
    assert before <= set(FORMERLY)


# Judges of one's own


def test_a_class_of_one_s_own_is_a_judge_with_settings(own):
    words = [*SHORT, "curriculum.judge=own_judges.py:Mine", "curriculum.judge.hope=0.2"]
    config = load_config(None, words)
    assert config.resolved["curriculum"]["judge"] == {"name": "own_judges.py:Mine", "hope": 0.2}
    assert (config.curriculum.judge.hope, config.curriculum.judge_trial.steps) == (0.2, 16)
    assert (
        resolve({k: v for k, v in config.resolved.items() if k != "schema"}).resolved
        == config.resolved
    )
    with pytest.raises(MetisError, match=r"unknown key 'curriculum.judge.hop'.*judge.hope"):
        load_config(None, [*words[:-1], "curriculum.judge.hop=0.2"])


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("own_judges:Unasked", "metis.curricula.judges.Judge"),
        ("own_judges:Settingless", "dataclass"),
        ("own_judges:nothing", "dataclass"),
        ("own_judges:Yours", "Yours"),
        ("nowhere_at_all.py:Mine", "nowhere_at_all.py"),
        ("metis.curricula.uniform:Uniform", "metis.curricula.judges.Judge"),
    ],
)
def test_a_class_that_is_no_judge_is_refused_in_one_line(own, name, word):
    with pytest.raises(MetisError) as caught:
        load_config(None, [*SHORT, f"curriculum.judge={name}"])
    message = str(caught.value)
    assert message.startswith(f"curriculum.judge = {name!r}: ") and "\n" not in message
    assert word in message


# Judges as Python objects


def test_a_judge_is_written_by_its_name_and_settings():
    found = as_settings({"curriculum": Metis(batch=8, group=4, judge=Readout(layer=0.5))})
    assert (found["batch"], found["group"]) == (8, 4)
    assert found["curriculum"] == {
        "name": "metis",
        "preset": "readout",
        "multiplier": 8,
        "explore": 0.1,
        "trial": None,
        "judge": {"name": "readout", "regression": "logistic", "layer": 0.5, "window": 20},
    }
    paper = as_settings({"curriculum": Metis(explore=0.0, trial=0, judge=Reason())})["curriculum"]
    assert paper["preset"] == "paper"
    own = as_settings({"curriculum": Metis(judge=Hopeful(0.3))})["curriculum"]["judge"]
    assert own == {"name": f"{__name__}:Hopeful", "hope": 0.3}
    given = {"name": "metis", "judge": Direct(replay=2)}
    assert as_settings({"curriculum": given})["curriculum"]["judge"]["replay"] == 2
    assert as_settings({"curriculum": {"name": "metis", "judge": Reason}})["curriculum"] == {
        "name": "metis",
        "judge": "reason",
    }
    assert as_settings({"curriculum": Probe()})["curriculum"]["judge"]["regression"] == "ridge"


@pytest.mark.parametrize(
    "judge", [Readout(layer=0.5), Reason(ema=0.5), Direct(replay=3), Hopeful(0.2)]
)
def test_a_run_with_a_judge_of_python_is_resumed(tmp_path, judge):
    small = {"engine": "simulated", "evaluate": 0, "show": False}
    curriculum = Metis(batch=4, group=2, multiplier=3, judge=judge)
    run = metis.train(out=tmp_path / "run", steps=2, curriculum=curriculum, **small)
    section = as_settings({"curriculum": curriculum})["curriculum"]
    assert run.config["curriculum"]["judge"] == section["judge"]
    assert run.config["curriculum"]["name"] == "metis"
    before = run.metrics
    again = metis.train(out=tmp_path / "run", steps=3, curriculum=curriculum, **small)
    assert again.metrics[: len(before)] == before
    other = Metis(batch=4, group=2, multiplier=4, judge=judge)
    with pytest.raises(MetisError, match=r"curriculum.multiplier"):
        metis.train(out=tmp_path / "run", steps=3, curriculum=other, **small)
