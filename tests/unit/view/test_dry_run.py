"""The output of a dry run: a recipe with origins, and the cost of a step."""

import io
import json
import re
import tomllib
from dataclasses import dataclass

import pytest
from rich.console import Console

from metis import MetisError
from metis.cli import main
from metis.config import load_config
from metis.core.dotted import leaves
from metis.curricula import CURRICULA
from metis.curricula.judges import JUDGES, Judge, Prediction, Predictions
from metis.run.manifest import create
from metis.view.dry_run import estimate, show

SMALL = ["engine=simulated", "batch=4", "group=4"]


@dataclass
class Constant(Judge[Predictions]):
    """A judge that asks nothing of the model."""

    value: float = 0.1

    def predict(self, candidates, batch, pool, progress):
        yield from ()
        return Predictions([Prediction(prompt, self.value, self.value) for prompt in candidates])


def printed(config, **console):
    out = io.StringIO()
    show(config, Console(file=out, soft_wrap=True, markup=False, highlight=False, **console))
    return out.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["curriculum.preset=paper", "task.instruction='a \"b\" \\\\ ü\tc'"],
        [*SMALL, "curriculum=staged", 'curriculum.stages=["skill-0", ["skill-1", "skill-2"]]'],
        ["engine=verl", "engine.overrides=[\"a.b='c'\"]"],
        *([*SMALL, f"curriculum={name}"] for name in CURRICULA),
        *([*SMALL, f"curriculum.judge={name}"] for name in (*JUDGES, f"{__name__}:Constant")),
        [*SMALL, "curriculum=probe", "curriculum.judge=reason"],
    ],
)
def test_what_is_printed_is_a_recipe_of_the_same_run(words, tmp_path):
    config = load_config(None, words)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(printed(config), "utf-8")
    again = load_config(recipe, [])
    assert again.resolved == config.resolved
    given = {key for key, origin in again.origins.items() if origin == "recipe recipe.toml"}
    unset = {key for key, value in leaves(config.resolved) if value is None}
    assert given >= config.origins.keys() - {"schema"} - unset


def test_the_judge_s_settings_stand_with_where_they_come_from(capsys):
    words = ["curriculum.preset=paper", "curriculum.judge.ema=0.9", "--dry-run"]
    assert main(["train", *SMALL, *words]) == 0
    section = capsys.readouterr().out.partition("[curriculum.judge]\n")[2].partition("\n\n")[0]
    found = {}
    for line in section.splitlines():
        setting, _, origin = line.partition("  # ")
        [(key, value)] = tomllib.loads(setting).items()
        found[key] = (value, origin.strip())
    assert found == {
        "name": ("reason", "preset paper"),
        "examples": (3, "default"),
        "weight": (0.01, "default"),
        "ema": (0.9, "command line"),
        "failures": ("zero", "default"),
        "max_tokens": (512, "default"),
        "temperature": (1.0, "default"),
    }


def test_dictionaries_and_settings_that_are_not_set_are_toml_too():
    text = printed(load_config(None, [*SMALL, "seed=1"]))
    assert "# data_seed is not set" in text
    assert "data_seed" not in tomllib.loads(text)
    pytest.importorskip("reasoning_gym")
    gym = ["task=gym", "task.prompts=9", "task.heldout=1", "batch=2"]
    assert tomllib.loads(printed(load_config(None, gym)))["task"]["config"] == {}


def test_origins_stand_in_a_column_and_have_colours_on_a_terminal():
    config = load_config(None, [*SMALL, "curriculum=uniform"])
    lines = printed(config).splitlines()
    settings = [line for line in lines if " = " in line and not line.startswith("#")]
    assert len({line.index("  # ") for line in settings if len(line) < 60}) == 1
    [batch] = [line for line in lines if line.startswith("batch = 4")]
    assert batch.endswith("# command line")
    assert "\x1b[" not in printed(config)
    assert "\x1b[" in printed(config, force_terminal=True, color_system="standard")


def costs(*words):
    return "\n".join(estimate(load_config(None, words)))


def test_what_a_step_costs():
    quick = costs()
    assert "6 prompts x 8 = 48 rollouts to train on, at most 768 generated tokens" in quick
    assert "24 candidates read, none generated" in quick
    assert "8 steps, 384 rollouts to train on, at most 6,144 generated tokens" in quick
    assert "200 answers, at most 3,200 generated tokens, 2 times" in quick
    direct = costs("curriculum.judge=direct", "curriculum.judge.replay=8")
    assert "24 candidates and up to 8 earlier outcomes judged, none generated" in direct
    reason = costs("curriculum.preset=paper", "curriculum.judge.max_tokens=10")
    assert "48 candidates judged, at most 480 generated tokens" in reason
    read = costs(*SMALL, "curriculum.preset=readout")
    assert "beside:   32 candidates read, none generated" in read
    own = costs(*SMALL, f"curriculum.judge={__name__}:Constant")
    assert "beside:   32 candidates predicted, none generated" in own
    assert "m times the rollouts" in costs("curriculum=oracle")
    sieved = costs(*SMALL, "filter=dapo", "filter.multiplier=2", "curriculum.preset=readout")
    assert "beside:   64 candidates read, none generated" in sieved
    assert "filter:   10 rounds of 32 rollouts at most; in each, what is beside" in sieved
    assert costs(*SMALL, "filter=ragen2").count("filter:   1 round of 16 rollouts at most\n") == 1
    assert "filter:" not in costs(*SMALL, "curriculum=dapo")
    assert "validation" not in costs(*SMALL) and "generated" not in costs(*SMALL, "curriculum=dapo")


@pytest.fixture
def shaped(tmp_path):
    """A folder with the sizes of a model, and no weights that could be loaded."""
    config = {"vocab_size": 50_000, "num_hidden_layers": 2, "hidden_size": 64}
    config |= {"num_attention_heads": 4, "intermediate_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(config))
    header = json.dumps({"all": {"dtype": "BF16", "shape": [1000, 1000, 250]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return tmp_path


def test_a_step_s_memory_and_seconds_on_this_machine(shaped):
    pytest.importorskip("torch")
    words = [f"engine.model={shaped}", "engine.device=cpu"]
    text = printed(load_config(None, [*words, "curriculum.judge=direct"]))
    assert "4.0 weights and optimizer" in text, "16 bytes of each weight"
    phases = re.search(r"a step \(.* generation, .* judging, .* update\), .* for 8 steps", text)
    assert phases is not None
    read = printed(load_config(None, [*words, "curriculum.judge=readout"]))
    assert "reading candidates" in read and "judging" not in read
    plain = printed(load_config(None, [*words, "curriculum=uniform"]))
    assert "judging" not in plain and " update), " in plain


def test_a_model_that_is_not_here_and_engines_of_another_kind_are_not_estimated(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("METIS_HOME", str(tmp_path))
    assert "not estimated until the model is on this machine" in printed(load_config(None, []))
    assert "memory:" not in printed(load_config(None, SMALL))


def test_a_budget_without_steps_and_validation_on_the_way():
    timed = costs("steps=0", "seconds=60", "evaluate=5")
    assert "until 60.0 seconds are spent" in timed and "0 steps" not in timed
    assert "before, every 5 steps, and after" in timed
    both = costs("steps=12", "tokens=1000", "evaluate=5")
    assert "until 1,000 generated tokens are spent; at most 12 steps, 576 rollouts to" in both
    assert both.endswith("4 times")
    assert costs("steps=10", "evaluate=5").endswith("3 times")


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["task=math", "task.path=data/none.parquet"], "data/none.parquet"),
        (["task=file", "task.path=none.jsonl"], "none.jsonl"),
        (["benchmarks=['aime24']"], "aime24"),
        (["benchmarks=['none.jsonl']"], "none.jsonl"),
        (["task=math", "task.path=none.parquet", "engine=verl"], "none.parquet"),
    ],
)
def test_a_dry_run_needs_no_data(words, missing, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("METIS_DATA", raising=False)
    with pytest.raises(MetisError, match=missing):
        load_config(None, words)
    assert main(["train", *words, "--dry-run", "--json"]) == 0
    capsys.readouterr()
    assert main(["train", *words, "--dry-run"]) == (2 if "engine=verl" in words else 0)
    said = capsys.readouterr()
    [notice] = [line for line in said.err.splitlines() if "without its data, for now: " in line]
    assert notice.startswith("metis: ") and missing in notice
    assert bool(said.out) == ("engine=verl" not in words)
    assert "# command line" in said.out + said.err
    assert list(tmp_path.iterdir()) == []


def test_without_data_the_last_line_says_why_there_is_no_command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["engine=verl", "task=math", "task.path=none.parquet", "--dry-run"]
    assert main(["train", *words]) == 2
    said = capsys.readouterr()
    last = said.err.splitlines()[-1]
    assert not said.out and last.startswith("metis: ")
    assert "task.path = 'none.parquet'" in last and "`metis prepare math` makes none" in last


def test_data_that_is_there_and_wrong_is_refused(tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert main(["train", "task=file", f"task.path={tmp_path}/bad.jsonl", "--dry-run"]) == 2
    assert "no field 'problem'" in capsys.readouterr().err


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_what_the_run_would_refuse_before_its_model_is_loaded_is_refused(json, tmp_path, capsys):
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(f'{{"problem": "{i}?", "answer": "{i}"}}\n' for i in range(80)))
    (tmp_path / "empty").mkdir()
    task = ["task=file", f"task.path={problems}", "task.heldout=10"]
    for words, said in (
        (["batch=500"], "batch = 500: the training set has only 70 prompts"),
        ([f"engine.model={tmp_path / 'empty'}"], "no config.json"),
    ):
        assert main(["train", *task, *words, "--dry-run", *json]) == 2
        printed = capsys.readouterr()
        assert not printed.out and said in printed.err.splitlines()[-1]


def test_with_a_run_s_folder_it_says_where_that_would_go_on(tmp_path, capsys):
    def dry(*words):
        code = main(["train", *SMALL, "curriculum=uniform", *words, "--out", f"{tmp_path}/run"])
        return code, capsys.readouterr().err

    assert dry("steps=4", "checkpoints.every=2")[0] == 0
    before = sorted(tmp_path.rglob("*"))
    code, said = dry("steps=6", "checkpoints.every=2", "--dry-run")
    assert code == 0
    assert f"the run in {tmp_path}/run would resume from step 4; from there on steps = 6" in said
    code, said = dry("steps=4", "checkpoints.every=2", "--dry-run")
    assert code == 0 and "this run is complete" in said and "would resume" not in said
    code, said = dry("steps=6", "seed=1", "--dry-run")
    assert code == 2 and "holds a run with seed = 0, not 1" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_with_a_folder_of_a_run_on_verl_too(tmp_path, capsys):
    words = ["engine=verl", "task.prompts=400", "--out", str(tmp_path / "run"), "--dry-run"]
    create(tmp_path / "run", load_config(None, words[:2]).resolved)
    assert main(["train", *words, "batch=16"]) == 0
    said = capsys.readouterr()
    assert "would start over: no checkpoint was made; from there on batch = 16" in said.err
    marker = tmp_path / "run" / "verl" / "latest_checkpointed_iteration.txt"
    marker.parent.mkdir()
    marker.write_text("3")
    assert main(["train", *words, "steps=300"]) == 0
    said = capsys.readouterr()
    assert "would resume from step 3; from there on steps = 300 (was 200)" in said.err
    assert "trainer.total_training_steps=300" in said.out


def test_the_candidates_are_no_more_than_the_pool():
    assert "32 candidates" in costs(*SMALL)
    assert "20 candidates" in costs(*SMALL, "engine.prompts=20")
    assert "20 candidates" in costs("task=arithmetic", "task.prompts=20")
