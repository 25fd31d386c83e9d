"""Illnesses: each is found in a run that has it, and none in a healthy one."""

import json
import shlex
from pathlib import Path

import pytest

from metis.cli import _parse, main
from metis.comparisons.command import _plan
from metis.diagnosis import lines
from metis.diagnosis.commands import Commands
from metis.diagnosis.facts import RunFacts
from metis.diagnosis.rules import RULES, found
from metis.run.notices import failure_notice
from metis.run.recorded import read_run
from metis.tasks.arithmetic import Arithmetic

FAIL, PASS, MIXED = [0.0] * 8, [1.0] * 8, [0.0, 1.0] * 4
CUT = [256] * 8
"""Lengths of a group in which no answer ended by itself."""
FLAT = {"batch/informative": 0.0, "rollout/wasted": 6400.0}
JUDGED = {"judge/failure_rate": 0.0, "judge/outcomes": 130.0}


def ill(run):
    return [rule.name for rule in found(RunFacts(run))]


def advice(run):
    return [line for line in lines(run) if line.kind == "advice"]


def late(values, step):
    """The first value in the first half of the run, the other in the second."""
    return values[step > 10]


OWN = {"name": "file", "path": "sums.jsonl", "reward": "lenient.py:score"}
ILL = {
    "reward too lenient": {
        "task": OWN,
        "said": ["It is 18.", "So 170", "12 it is", "8 + 9 = 17."],
        "earned": [1.0] * 4,
    },
    "rollouts fail": {"step": lambda step: {"rollout/failed": 4.0}},
    "update out of bounds": {
        "step": lambda step: {"update/gradient_norm": late((0.5, 6.0), step)},
    },
    "answers collapse": {
        "step": lambda step: {"rollout/tokens": late((6400.0, 640.0), step)},
        "after": 100,
    },
    "accuracy fell": {"before": 200, "after": 150},
    "prompts too hard": {
        "step": lambda step: {**FLAT, "rollout/cut_off": 40.0},
        "rewards": lambda step: FAIL,
    },
    "everything solved": {
        "step": lambda step: {} if step < 10 else FLAT,
        "rewards": lambda step: late((MIXED, PASS), step),
    },
    "answers truncated": {"step": lambda step: {"rollout/cut_off": 40.0}},
    "reward misses it": {
        "step": lambda step: FLAT,
        "rewards": lambda step: FAIL,
        "said": ["8 + 9 = 17.", "So it is 17", "Perhaps 16", "I think the answer is **17**"],
    },
    "reward always the same": {"step": lambda step: FLAT, "rewards": lambda step: FAIL},
    "nothing varies": {
        "step": lambda step: FLAT,
        "rewards": lambda step: PASS if 10 < step < 15 else FAIL,
    },
    "judge without skill": {
        "step": lambda step: {
            **JUDGED,
            "judge/realised_lift": 0.002,
            "judge/realised_lift_z": 0.3,
        },
        "curriculum": {"name": "metis", "trial": 16},
    },
    "too few held-out problems": {"before": 5, "after": 6, "of": 20},
}
BESIDE = {"prompts too hard": ["answers truncated"]}
"""What is found with an illness, after it."""


@pytest.mark.parametrize("name", ILL)
def test_an_illness_is_found_alone_and_said_with_a_command(make, name):
    run = make(**ILL[name])
    assert ill(run) == [name, *BESIDE.get(name, [])]
    line = advice(run)[0]
    assert line.text and line.command and line.command.startswith("metis ")


@pytest.mark.parametrize("name", ILL)
def test_a_command_is_one_that_metis_knows(make, name):
    for line in advice(make(**ILL[name])):
        _, *words = shlex.split(line.command)
        assert _parse(words).run


def test_where_a_few_groups_vary_uniform_sampling_is_compared_with_metis(make):
    few = {**FLAT, "batch/informative": 0.03, "rollout/wasted": 6300.0}
    run = make(lambda step: few, lambda step: [*FAIL[:7], 1.0] if step == 9 else FAIL)
    [line] = advice(run)
    assert "only 3.0% of the groups" in line.text.lower()
    chosen = _parse(shlex.split(line.command)[1:])
    compared = "uniform,metis,probe", f"{run.folder.name}-compared"
    assert (chosen.curricula, chosen.out.name) == compared


BOXED = {"name": "file", "path": "sums.jsonl", "match": "box", "reward": ""}


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (BOXED, "task.match=number"),
        ({**BOXED, "reward": "my.py:score"}, "--answer 20/p20/1"),
        ({"name": "math", "path": "sums.jsonl"}, "--answer 20/p20/1"),
    ],
)
def test_a_reward_that_misses_answers_is_mended_or_one_of_them_is_shown(make, task, words):
    run = make(**{**ILL["reward misses it"], "task": task})
    [line] = advice(run)
    assert words in line.command


def test_a_reward_that_passes_wrong_answers_is_named_and_truncation_is_not_blamed(make):
    cut = {**FLAT, "rollout/cut_off": 60.0}
    lenient = ILL["reward too lenient"]
    run = make(lambda step: cut, lambda step: PASS, before=360, after=400, **lenient)
    assert ill(run) == ["reward too lenient"]
    learnt, _, line = lines(run)
    assert "60 of the 80 latest rewarded answers" in line.text and OWN["reward"] in line.text
    assert line.command == f"metis inspect {run.folder} --answer 20/p20/2"
    assert f"accuracy by {OWN['reward']}" in learnt.text


def test_the_accuracy_of_benchmarks_is_not_that_of_a_lenient_reward(make):
    run = make(**ILL["reward too lenient"], benchmarks=["math500"])
    learnt, _, line = lines(run)
    assert OWN["reward"] not in learnt.text and "accuracy" not in line.text


WRONG = {"answers": ["It is 18."] * 4, "rewards": [1.0] * 4}


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"name": "math", "path": "sums.jsonl"}, WRONG),
        (OWN, {**WRONG, "rewards": [1.0, 1.0, 1.0, 0.5]}),
        (OWN, {**WRONG, "reference": "17 or 18, whichever"}),
        (OWN, {**WRONG, "answers": ["```python\nprint(8 + 9)\n```"] * 4}),
        (OWN, {**WRONG, "answers": ["It is 17.0"] * 4}),
        (OWN, {**WRONG, "answers": ["1,700"] * 4, "reference": "1700"}),
        (OWN, {**WRONG, "answers": ["17", "So 17", "18", "19"]}),
        (OWN, {**WRONG, "rewards": [0.0] * 4}),
        (OWN, {**WRONG, "answers": ["It is 18."] * 3, "rewards": [1.0] * 3}),
    ],
    ids=[
        "reward of METIS",
        "continuous",
        "long reference",
        "program",
        "another form",
        "thousands",
        "half",
        "not rewarded",
        "too few",
    ],
)
def test_what_is_no_lenient_reward(make, say, task, said):
    run = make(task=task)
    for step in range(1, 21):
        say(run.folder, step, **said)
    assert ill(run) == []


def test_a_strict_reward_is_named_and_shown_by_an_answer_that_ends_with_what_was_expected(make):
    said = ["8 + 9 = 17", "So 17.", "So **17**", "So 17!"]
    run = make(**{**ILL["reward misses it"], "said": said, "task": {"name": "my.py:Strict"}})
    [line] = advice(run)
    assert "my.py:Strict" in line.text and line.command.endswith("--answer 20/p20/0")


@pytest.mark.parametrize(
    "said",
    [
        {"answers": ["17 is wrong, so 18" + " and so on" * 40] * 4},
        {"answers": ["It is 170.", "117", "-17", "1.17"], "reference": "$17$"},
        {"answers": ["So 17"] * 4, "question": "Is it 17 or 18?"},
        {"answers": ["So 17"] * 4, "reference": ""},
        {"answers": ["So 17"] * 4, "rewards": [0.0, 0.0, 0.0, 1.0]},
    ],
    ids=[
        "not at the end",
        "another number",
        "in the question",
        "unknown",
        "not all",
    ],
)
def test_what_is_no_missed_answer(make, say, said):
    run = make(lambda step: FLAT, lambda step: FAIL)
    for step in range(1, 21):
        say(run.folder, step, **said)
    assert ill(run) == ["reward always the same"]


@pytest.mark.parametrize(
    ("said", "reference", "names"),
    [
        (["It is 170.", "117", "-17", "1.17"], "17", ["prompts too hard"]),
        (["It is 18.", "Or 19.", "20", "21"], "1700", ["prompts too hard"]),
        (["It is 18.", "Or 19.", "20", "1,700 it is, or not"], "1700", ["reward always the same"]),
        (["It is 18.", "Or 19.", "20", "21"], "17 or 1", ["reward always the same"]),
        (["It is 18.", "Or 19."], "17", ["reward always the same"]),
    ],
    ids=["another number", "none has it", "some have it", "no number or word", "too few"],
)
def test_wrong_answers_are_told_from_a_reward_that_is_too_strict(make, say, said, reference, names):
    run = make(lambda step: FLAT, lambda step: FAIL)
    for step in range(1, 21):
        say(run.folder, step, said, reference=reference)
    assert ill(run) == names
    if "prompts too hard" in names:
        assert "none of the 80 latest ended answers" in advice(run)[0].text


def test_a_reward_is_doubted_where_an_answer_that_earned_nothing_has_what_was_expected(make, say):
    run = make(lambda step: {**FLAT, "rollout/cut_off": 40.0}, lambda step: FAIL)
    say(run.folder, 1, ["It is 17, or so.", "It is 18."])
    assert (
        "1 of the 2 latest ended answers contain the expected one. See whether the reward"
        in advice(run)[0].text
    )


@pytest.mark.parametrize(
    ("rewards", "found"),
    [
        (FAIL, ["reward misses it"]),
        ([*FAIL[:7], 1.0], ["nothing varies"]),
    ],
    ids=["nothing was ever right", "others were"],
)
def test_single_right_answers_tell_where_every_reward_is_0(make, say, rewards, found):
    few = {**FLAT, "batch/informative": 0.03, "rollout/wasted": 6300.0}
    run = make(lambda step: few, lambda step: rewards if step == 9 else FAIL)
    for step in range(1, 21):
        say(run.folder, step, answers=["So 17", "So 16", "So 15", "So 14"])
    assert ill(run) == found
    if "reward misses it" in found:
        assert "20 of the latest answers" in advice(run)[0].text


def test_accuracy_that_leaves_nothing_to_learn_is_told(make):
    run = make(before=20, after=20, of=20)
    assert ill(run)[0] == "everything solved"
    assert "before training" in advice(run)[0].text


@pytest.mark.parametrize("rate", [0.01, 2e-5])
def test_a_slower_rate_is_a_usual_one(make, rate):
    run = make(**{**ILL["accuracy fell"], "engine": {"name": "local", "learning_rate": rate}})
    [line] = advice(run)
    slower = float(line.command.partition("engine.learning_rate=")[2].split()[0])
    assert slower == pytest.approx(min(rate / 10, 1e-5)) and f"{rate:g}" in line.text


def test_a_reward_that_tells_no_answers_apart_is_found_even_where_most_are_truncated(make):
    run = make(lambda step: {**FLAT, "rollout/cut_off": 40.0}, lambda step: [0.3] * 8)
    assert ill(run) == ["answers truncated", "reward always the same"]
    assert "every reward is 0.3" in advice(run)[1].text.lower()


def test_damaged_transcripts_hide_no_diagnosis(make):
    run = make(**ILL["reward misses it"])
    [file] = (run.folder / "transcripts").iterdir()
    file.write_bytes(b"\x1f\x8b damaged")
    assert ill(run) == ["reward always the same"]


UNSKILLED = {**JUDGED, "judge/realised_lift": 0.002, "judge/realised_lift_z": 0.3}


@pytest.mark.parametrize(
    ("curriculum", "failures", "words"),
    [
        ({"name": "metis", "judge": {"name": "reason"}}, {}, ["judge=direct", "judge=readout"]),
        ({"name": "metis", "judge": {"name": "direct"}}, {}, ["uniform,metis", "judge=readout"]),
        ({"name": "metis", "judge": {"name": "my.py:Judge"}}, {}, ["curriculum=uniform"]),
        ({"name": "probe"}, {}, ["curriculum=uniform"]),
        (
            {"name": "metis", "judge": {"name": "reason", "max_tokens": 16}},
            {"judge/failure_rate": 0.8, "judge/failure_cut_off": 0.7},
            ["curriculum.judge.max_tokens=32"],
        ),
        (
            {"name": "metis", "judge": {"name": "reason", "max_tokens": 512}},
            {"judge/failure_rate": 0.8, "judge/failure_cut_off": 0.1},
            ["judge=direct"],
        ),
    ],
)
def test_in_place_of_a_judge_without_skill_others_are_named(make, curriculum, failures, words):
    run = make(lambda step: {**UNSKILLED, **failures}, curriculum=curriculum)
    [line] = advice(run)
    assert all(word in line.command for word in words)
    own = curriculum.get("judge", {}).get("name", "")
    assert f"judge={own}" not in line.command
    assert ("80% of its judgments" in line.text) == bool(failures)
    assert _parse(shlex.split(line.command)[1:]).run


def test_an_advised_comparison_says_how_many_runs_it_trains(make):
    judge = {"name": "metis", "judge": {"name": "direct"}}
    task = {"name": "arithmetic", **vars(Arithmetic()), "heldout": 20}
    engine = {"name": "local", "model": "smollm2-135m"}
    run = make(lambda step: UNSKILLED, curriculum=judge, task=task, engine=engine)
    [line] = advice(run)
    plan = _plan(_parse(shlex.split(line.command)[1:]))
    assert f": {len(plan.variants) * len(plan.seeds)} runs)" in line.text


@pytest.mark.parametrize(
    ("z", "trial", "words", "other"),
    [
        (-1.6, 1.0, "no benefit of the judge (direct) is shown", "chose worse"),
        (-6.0, 0.0, "the judge (direct) chose worse", "no benefit"),
    ],
    ids=["by chance", "beyond chance"],
)
def test_a_judge_is_said_to_choose_worse_only_far_below_0(make, z, trial, words, other):
    judged = {**JUDGED, "judge/realised_lift": -0.014, "judge/realised_lift_z": z}
    judged |= {"judge/spearman": -0.03, "select/trial": trial}
    judge = {"name": "metis", "trial": 16, "judge": {"name": "direct"}}
    run = make(lambda step: judged, curriculum=judge)
    said = [line.text.lower() for line in lines(run) if line.kind in ("judge", "advice")]
    assert len(said) == 2 and all(words in each and other not in each for each in said)
    assert "-0.03" in said[0] and ("on trial in all 20 steps" in said[0]) == bool(trial)


def test_of_few_outcomes_no_correlation_is_told(make):
    judged = {**UNSKILLED, "judge/outcomes": 40.0, "judge/spearman": -0.09}
    [*_, line] = lines(make(lambda step: judged, curriculum={"name": "metis"}))
    assert line.kind == "judge" and "20 steps are too few to tell" in line.text
    assert "-0.09" not in line.text


def test_a_comparison_with_other_judges_has_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["engine=simulated", "curriculum=metis", "curriculum.judge=reason", "steps=1"]
    assert main(["train", *words, "--out", "run"]) == 0
    judges = {name: f"curriculum.judge={name}" for name in ("direct", "readout")}
    command = Commands(Path("run")).compare("uniform", "metis", **judges)
    configs = _plan(_parse(shlex.split(command)[1:])).configs()
    curricula = {name: each.resolved["curriculum"] for name, each in configs.items()}
    named = {name: each.get("judge", {}).get("name") for name, each in curricula.items()}
    assert named == {"uniform": None, "metis": "reason", "direct": "direct", "readout": "readout"}


def test_every_rule_has_a_run_that_is_ill_by_it():
    assert set(ILL) == {rule.name for rule in RULES}


def test_every_rule_is_documented_in_their_order():
    page = (Path(__file__).parents[3] / "docs/runs.md").read_text("utf-8")
    places = [page.index(f"| {rule.name} |") for rule in RULES]
    assert places == sorted(places)


def test_a_healthy_run_has_no_illness(make):
    assert ill(make()) == []
    lift = {**JUDGED, "judge/realised_lift": 0.05, "judge/realised_lift_z": 3.0}
    run = make(lambda step: lift, curriculum={"name": "metis"})
    assert [line.kind for line in lines(run)] == ["learnt", "wasted", "judge"]


@pytest.mark.parametrize(
    ("metric", "values", "words"),
    [
        ("actor/grad_norm", (0.5, 6.0), "from 0.5 to 6"),
        ("actor/kl_loss", (0.01, 2.0), "2 nats"),
        ("actor/ppo_kl", (0.0, -0.3), "0.3 nats"),
        ("update/non_finite", (0.0, 1.0), "in 10 steps"),
    ],
)
def test_an_update_is_out_of_bounds_by_its_gradient_or_its_divergence(make, metric, values, words):
    run = make(lambda step: {metric: late(values, step), "update/gradient_norm": None})
    [line] = advice(run)
    assert words in line.text and "engine.learning_rate=3e-07" in line.command


def test_shorter_answers_are_no_illness_where_accuracy_rose(make):
    assert ill(make(lambda step: {"rollout/tokens": late((6400.0, 640.0), step)})) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [(0.9, "may pay for saying little"), (0.0, "Lower the learning rate, which is 3e-06")],
)
def test_answers_that_collapse_are_paid_for_or_the_model_is_broken(make, after, words):
    def step(number):
        rewards = {"batch/reward": late((0.5, after), number)}
        return {**rewards, "rollout/tokens": late((6400.0, 640.0), number)}

    run = make(step, before=200, after=100)
    [line, *others] = advice(run)
    assert words in line.text and bool(others) == (after > 0.5)
    assert "from step 11 on" in line.text


def test_a_step_is_only_named_where_answers_stay_short(make):
    run = make(lambda step: {"rollout/tokens": 640.0 if 10 < step < 20 else 6400.0}, after=100)
    [line] = advice(run)
    assert "shrank" in line.text and "from step" not in line.text


def test_a_truncated_answer_tells_nothing_of_a_reward_that_is_always_0(make):
    cut = {**FLAT, "rollout/cut_off": 40.0}
    run = make(lambda step: cut, lambda step: FAIL, tokens=CUT)
    assert ill(run) == ["answers truncated", "nothing varies"]


def test_few_answers_that_end_say_little_of_the_others(make):
    cut = {**FLAT, "rollout/cut_off": 56.0}
    run = make(lambda step: cut, lambda step: FAIL, tokens=[*CUT[:7], 20])
    assert ill(run) == ["answers truncated", "nothing varies"]


def test_truncation_is_not_to_blame_where_nothing_is_left_to_learn(make):
    cut = {**FLAT, "rollout/cut_off": 40.0}
    run = make(lambda step: cut, lambda step: PASS)
    assert ill(run) == ["everything solved", "answers truncated"]
    assert "reward asks for too little" in advice(run)[0].text
    assert advice(run)[0].command == f"metis view {run.folder}"


def test_where_nearly_no_answer_ends_that_is_why_nothing_varies(make):
    run = make(lambda step: {**FLAT, "rollout/cut_off": 60.0}, lambda step: FAIL, tokens=CUT)
    assert ill(run) == ["answers truncated"]


@pytest.mark.parametrize(("cut", "longer"), [(40.0, 512), (60.0, 2048)])
def test_the_fewer_answers_end_the_more_room_is_advised(make, cut, longer):
    run = make(lambda step: {**FLAT, "rollout/cut_off": cut}, lambda step: FAIL, tokens=CUT)
    first, *others = advice(run)
    assert f"engine.max_tokens={longer} " in first.command
    assert "truncated at 256 tokens" in first.text
    assert all(first.command.split("--out")[-1] not in other.command for other in others)


def test_the_first_failure_is_quoted(make):
    run = make(lambda step: {"rollout/failed": 64.0})
    row = {"step": 1, "text": failure_notice("TypeError: no number (my.py, line 3)")}
    (run.folder / "notices.jsonl").write_text(json.dumps(row))
    assert "TypeError: no number (my.py, line 3)" in advice(run)[0].text


def test_the_two_most_harmful_are_said(make):
    counts = {"rollout/failed": 20.0, "rollout/cut_off": 40.0, **FLAT}
    run = make(lambda step: counts, before=5, after=6, of=20)
    assert len(ill(run)) > 2
    assert ["failed" in advice(run)[0].text, "truncated" in advice(run)[1].text] == [True, True]
    assert len(advice(run)) == 2


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (["engine.hardness=60"], ["reward always the same"]),
        (["engine.hardness=1", "engine.spread=0", "engine.slope=60"], ["reward always the same"]),
        (["engine.failures=0.4"], ["rollouts fail"]),
        ([], []),
    ],
    ids=["too hard", "all alike", "failures", "healthy"],
)
def test_simulated_runs(tmp_path, monkeypatch, settings, names):
    monkeypatch.chdir(tmp_path)
    words = ["engine=simulated", "curriculum=uniform", "steps=30", "batch=8", *settings]
    assert main(["train", *words, "--out", "run"]) == 0
    run = read_run(Path("run"))
    assert ill(run) == names


def test_everything_solved_in_a_simulated_run(tmp_path):
    out = str(tmp_path / "run")
    words = ["engine=simulated", "engine.spread=0", "engine.slope=60", "engine.hardness=0"]
    assert main(["train", *words, "curriculum=uniform", "steps=12", "batch=8", "--out", out]) == 0
    run = read_run(Path(out))
    assert "everything solved" in ill(run)


COMMANDS = {
    "engine.learning_rate": {"before": 200, "after": 150},
    "engine.max_tokens": ILL["answers truncated"],
    "curriculum": ILL["judge without skill"],
    "task.heldout": ILL["too few held-out problems"],
}


@pytest.mark.parametrize("key", COMMANDS)
def test_a_command_to_train_again_works(make, key, monkeypatch, capsys):
    task = {"name": "arithmetic", **vars(Arithmetic()), "heldout": 20}
    engine = {"name": "local", "max_tokens": 256, "learning_rate": 3e-6, "model": "smollm2-135m"}
    given = {"task": task, "engine": engine, "curriculum": {"name": "uniform"}, **COMMANDS[key]}
    run = make(**given)
    monkeypatch.chdir(run.folder.parent)
    [line] = [each for each in lines(run, Path(run.folder.name)) if each.kind == "advice"]
    _, *words = shlex.split(line.command)
    assert f" {key}=" in line.command
    assert main([*words, "--dry-run"]) == 0, capsys.readouterr().err
    assert not Path(words[-1]).exists()
