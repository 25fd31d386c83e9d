"""Selectors in TRL's trainers, on a tiny model: picks, lag, resuming, several processes."""

import json
import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import pytest
from datasets import Dataset
from packaging.requirements import Requirement
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

import metis
import metis.trl
import trl_grpo
from tiny_trl import (
    RESUMED,
    ROWS,
    SAVED,
    by_answer,
    by_place,
    by_prompt,
    selector,
    trainer,
)

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("tiny_trl.py")
ON_CPU = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "save_strategy": "no",
    "per_device_train_batch_size": 16,
    "gradient_accumulation_steps": 1,
}


def lags(made):
    return [entry["selector/lag"] for entry in made.state.log_history if "selector/lag" in entry]


# The example


@pytest.mark.parametrize("name", trl_grpo.CURRICULA)
def test_the_example_trains_with(tiny, tmp_path, name):
    rows = trl_grpo.ROWS[:200]
    settings = {**ON_CPU, "output_dir": str(tmp_path)}
    made = trl_grpo.train(str(tiny), name, 20, rows, by_answer, **settings)
    assert made.state.global_step == 20
    last = [entry for entry in made.state.log_history if "selector/step" in entry][-1]
    assert last["selector/step"] == 19 and last["selector/ended"] == 20
    assert ("judge/outcomes" in last) == (name == "readout")


def test_a_probe_trains_too(tiny, tmp_path):
    chosen = selector("probe")
    trainer(tiny, chosen, tmp_path, by_answer).train()
    assert chosen.metrics()["selector/ended"] == 4


def test_the_example_is_short_and_marks_the_lines_that_it_adds():
    lines = (ROOT / "examples/trl_grpo.py").read_text("utf-8").splitlines()
    assert len(lines) < 60
    assert sum(line.endswith("# METIS") for line in lines) == 5


# Prompts and rewards


def test_a_stream_has_all_columns_and_can_be_looked_into():
    chosen = selector("uniform")
    rows = metis.trl.stream(chosen)
    first, again = list(islice(rows, 4)), list(islice(rows, 8))
    assert again[:4] == first and len(chosen.proposed) == 2
    for row in again:
        given = ROWS[int(row["metis_pick"]["key"])]
        assert {name: row[name] for name in given} == given


@pytest.mark.parametrize("row", ["text", [{"role": "user", "content": "text"}]])
@pytest.mark.parametrize("form", [lambda row: row, lambda row: {"problem": row}])
def test_a_stream_has_its_text_or_chat_in_prompt(row, form):
    chosen = selector("uniform", [form(row)] * 8)
    assert next(iter(metis.trl.stream(chosen)))["prompt"] == row


def test_a_stream_does_not_hash_what_answers_for_the_model():
    class Unpicklable:
        def __reduce__(self):
            raise AssertionError("it was pickled")

        def __call__(self, request):
            raise AssertionError("it was asked")

    settings = {"curriculum": "metis", "preset": "readout", "ask": Unpicklable()}
    metis.trl.stream(metis.Selector(ROWS, **settings, batch=4, group=2))


def test_what_trl_cannot_do_is_refused():
    with pytest.raises(metis.MetisError, match="dapo"):
        metis.trl.stream(metis.Selector(ROWS, "dapo", batch=4, group=2))
    with pytest.raises(metis.MetisError, match="knapsack"):
        metis.trl.stream(metis.Selector(ROWS, "knapsack", batch=4, group=2))
    measures = metis.Selector(ROWS, "adcl", batch=4, group=2)
    with pytest.raises(metis.MetisError, match="adcl"):
        next(iter(metis.trl.stream(measures)))


def batch_of(chosen):
    """The columns of a batch, as a trainer gives them to its reward functions."""
    logged = {}
    repeated = [row for row in islice(metis.trl.stream(chosen), 4) for _ in range(2)]
    columns = {name: [row[name] for row in repeated] for name in repeated[0]}
    columns["prompts"] = columns.pop("prompt")
    return {**columns, "log_metric": logged.__setitem__}, logged


def test_several_functions_are_observed_by_their_weighted_mean(monkeypatch):
    chosen = selector("uniform", rewards="continuous")
    seen = {}
    monkeypatch.setattr(chosen, "observe", lambda pick, rewards: seen.update({pick: rewards}))
    ones = metis.trl.watch(
        chosen,
        [lambda prompts, **_: [1.0] * 8, lambda prompts, **_: [None, 0.0] * 4],
        weights=[1, 3],
    )
    columns, _ = batch_of(chosen)
    assert [function(**columns) for function in ones] == [[1.0] * 8, [None, 0.0] * 4]
    assert seen == {pick: [1.0, 0.25] for pick in range(4)}


def test_a_rollout_without_a_reward_has_failed():
    chosen = selector("uniform")
    columns, logged = batch_of(chosen)
    watched = metis.trl.watch(chosen, lambda **_: [None, float("nan"), *[1.0] * 6])
    watched(**columns)
    assert logged["selector/failed"] == 2 and logged["selector/ended"] == 1


def test_the_function_sees_no_column_of_ours_and_keeps_its_name():
    chosen = selector("uniform")
    columns, _ = batch_of(chosen)

    def score(**given):
        assert given.keys() == {"prompts", "sum", "log_metric"}
        return [0.0] * 8

    watched = metis.trl.watch(chosen, score)
    assert watched.__name__ == "score"
    watched(**columns)
    assert chosen.metrics()["selector/ended"] == 1


def test_rewards_in_an_evaluation_are_not_observed():
    chosen = selector("uniform")
    watched = metis.trl.watch(chosen, by_prompt)
    assert len(watched(prompts=["a", "b"])) == 2
    assert not chosen.metrics()["selector/ended"]


def test_processes_that_disagree_are_noticed():
    chosen = selector("uniform")
    columns, _ = batch_of(chosen)
    columns["metis_pick"][0] = {"id": 0, "key": "another"}
    with pytest.raises(metis.MetisError, match="do not agree"):
        metis.trl.watch(chosen, by_prompt)(**columns)


@pytest.mark.parametrize("reward", ["a/model", None])
def test_a_reward_that_is_no_function_is_refused(reward):
    with pytest.raises(metis.MetisError, match="function"):
        metis.trl.watch(selector("uniform"), reward)


# The trainer


KINDS = {"grpo": (GRPOConfig, GRPOTrainer), "rloo": (RLOOConfig, RLOOTrainer)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("per_generation", "lag"), [(1, 1.0), (2, 0.0)])
def test_the_lag_is_measured(tiny, tmp_path, kind, per_generation, lag):
    settings = {"steps_per_generation": per_generation, "per_device_train_batch_size": 4}
    chosen = selector("mopps", batch=2 * per_generation)
    made = trainer(tiny, chosen, tmp_path, kind=KINDS[kind], **settings)
    made.train()
    assert lags(made) and set(lags(made)) == {lag}


@pytest.mark.parametrize("name", RESUMED)
def test_killed_and_resumed_it_proposes_the_same(tiny, tmp_path, name):
    words = [sys.executable, PROGRAM, "killed", tiny, name, tmp_path]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    whole, resumed = selector(name), selector(name)
    trainer(tiny, whole, tmp_path / "whole", by_place, **SAVED).train()
    made = trainer(tiny, resumed, tmp_path, by_place, **SAVED)
    made.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert json.loads((tmp_path / "proposed.json").read_text()) == whole.proposed[:6]
    assert resumed.proposed == whole.proposed[4:]  # the fourth batch was read before the kill
    assert resumed.metrics()["batch/informative"] == whole.metrics()["batch/informative"] > 0


@pytest.mark.parametrize("saved", [1, 2])
def test_saved_in_a_generation_or_after_it_resumes_with_the_next_prompts(tiny, tmp_path, saved):
    settings = {"steps_per_generation": 4, "per_device_train_batch_size": 2, "max_steps": 8}
    settings |= {"gradient_accumulation_steps": 2, "save_strategy": "steps", "save_steps": 1}
    whole, resumed = selector("mopps"), selector("mopps")
    trainer(tiny, whole, tmp_path, **settings).train()
    made = trainer(tiny, resumed, tmp_path, **settings)
    made.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{saved}"))
    assert len(resumed.proposed) >= 3  # after the first step nothing is read ahead, then one batch
    assert resumed.proposed == whole.proposed[saved:]


def test_a_checkpoint_of_another_training_is_refused(tiny, tmp_path):
    settings = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    first = trainer(tiny, selector("uniform"), tmp_path, **settings)
    first.train()
    other = trainer(tiny, selector("mopps"), tmp_path, **settings)
    with pytest.raises(metis.MetisError, match="uniform"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("shuffle_dataset", True), ("remove_unused_columns", True), ("steps_per_generation", 2)],
)
def test_arguments_under_which_it_would_go_wrong_are_refused(tiny, tmp_path, setting, value):
    made = trainer(tiny, selector("uniform"), tmp_path, **{setting: value})
    name = "generation_batch_size" if setting == "steps_per_generation" else setting
    with pytest.raises(metis.MetisError, match=name):
        made.train()


def test_a_state_that_the_trainer_would_make_anew_is_refused(tiny, tmp_path):
    name = "restore_callback_states_from_checkpoint"
    with pytest.raises(metis.MetisError, match=name):
        trainer(tiny, selector("uniform"), tmp_path, **{name: True})


def test_a_trainer_that_rolls_out_in_another_process_is_refused(tiny, tmp_path):
    chosen = selector("uniform")
    watched, rows = metis.trl.watch(chosen, by_prompt), metis.trl.stream(chosen)
    args = AsyncGRPOConfig(str(tmp_path), use_cpu=True, bf16=False, max_steps=1, report_to="none")
    with pytest.raises(metis.MetisError, match="AsyncGRPOTrainer"):
        AsyncGRPOTrainer(str(tiny), watched, args, rows, callbacks=[metis.trl.State(chosen)])


def test_a_trainer_without_watched_rewards_is_refused(tiny, tmp_path):
    chosen = selector("uniform")
    made = trainer(tiny, chosen, tmp_path)
    made.reward_funcs = [by_prompt]
    with pytest.raises(metis.MetisError, match="watch"):
        made.train()


@pytest.mark.parametrize("chats", [False, True])
def test_hidden_states_are_those_of_the_model_at_the_last_token_of_the_prompt(
    tiny, tmp_path, chats
):
    texts = [f"{i} times {i**3}" for i in range(64)]
    rows = [[{"role": "user", "content": text}] for text in texts] if chats else texts
    chosen = selector("readout", rows)
    made = trainer(tiny, chosen, tmp_path, max_steps=1)
    trained = []

    def remember(model, _, named):
        if model.training:
            trained.extend(named["input_ids"])

    made.model.register_forward_pre_hook(remember, with_kwargs=True)
    made.train()
    asked = [int(key) for key in chosen.proposed[0]]
    answers = chosen.ask(metis.core.Embed([chosen.rows[i] for i in asked], (0.5, 1.0)))
    of_trl = [made.processing_class.decode(row) for row in trained]
    for text, answer in zip([texts[i] for i in asked], answers, strict=True):
        begins = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n" if chats else text
        assert any(begins in row for row in of_trl)
        tokens = made.processing_class(text=begins, return_tensors="pt")
        states = made.model(**tokens, output_hidden_states=True).hidden_states
        assert len(states) == 3
        wanted = [*states[1][0, -1].tolist(), *states[2][0, -1].tolist()]
        assert answer.tolist() == pytest.approx(wanted, abs=1e-5)
    assert made.model.training


# Several processes


@pytest.fixture(scope="module")
def two(tiny, tmp_path_factory):
    """What each of two processes proposed, by curriculum."""
    file = tmp_path_factory.mktemp("ranks") / "two"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    arguments = ["--nproc-per-node=2", PROGRAM, "ranks", tiny, file]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(Path(f"{file}.{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("name", RESUMED)
def test_two_processes_agree_with_each_other_and_with_one(tiny, tmp_path, two, name):
    first, second = (proposed[name] for proposed in two)
    assert first == second
    whole, resumed = first
    assert len(whole) == 7 and resumed == whole[4:]
    alone = selector(name)
    trainer(tiny, alone, tmp_path, max_steps=6).train()
    assert alone.proposed == whole


# The page


def shown(tiny, tmp_path):
    """What the code of pages takes for granted."""
    others = {"max_completion_length": 4, "report_to": "none", "output_dir": str(tmp_path)}
    others |= {name: ON_CPU[name] for name in ("use_cpu", "bf16", "gradient_checkpointing")}
    return {
        "metis": metis,
        "GRPOConfig": GRPOConfig,
        "GRPOTrainer": GRPOTrainer,
        "model": str(tiny),
        "rows": Dataset.from_list(ROWS),
        "reward": by_answer,
        "others": others,
    }


def blocks(page):
    text = (ROOT / page).read_text("utf-8")
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def test_the_page_shows_what_trains(tiny, tmp_path):
    before, after = blocks("docs/trl.md")
    names = shown(tiny, tmp_path)
    exec(before, names)
    exec(after.replace("500", "2"), names)
    names["trainer"].train()
    assert lags(names["trainer"])
    added = [line.strip() for line in after.splitlines() if "# METIS" in line]
    assert len(added) == 6 and not any("METIS" in line for line in before.splitlines())
    assert isinstance(names["selector"].ask, metis.trl.Policy)


def test_the_readme_shows_what_trains(tiny, tmp_path):
    names = shown(tiny, tmp_path)
    names["others"]["per_device_train_batch_size"] = 64
    exec(blocks("README.md")[1].replace("500", "2"), names)
    names["trainer"].train()
    assert lags(names["trainer"])


# TRL itself


def test_trl_is_in_the_range_that_is_supported_and_has_what_is_used():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [needed] = project["optional-dependencies"]["trl"]
    assert Requirement(needed).specifier.contains(version("trl"))
    names = {"shuffle_dataset", "remove_unused_columns", "num_generations", "ignore_data_skip"}
    names |= {"generation_batch_size", "steps_per_generation", "num_iterations"}
    for config in (GRPOConfig, RLOOConfig):
        assert names <= config.__dataclass_fields__.keys()


def test_no_private_name_of_trl_is_used():
    for path in ("src/metis/trl.py", "examples/trl_grpo.py"):
        text = (ROOT / path).read_text("utf-8")
        used = set(re.findall(r"(?<!self)\.(_[a-z]\w*)", text))
        imported = re.findall(r"^(?:from|import) .*\b_\w+", text, re.MULTILINE)
        assert not used and not imported
