"""The panel at every size, with every part of a run missing once."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from metis.view.history import Pace, StepHistory
from metis.view.panel import WIDEST, Heading, LivePanel

METRICS = {
    "batch/groups": 8.0,
    "batch/reward": 0.48,
    "batch/variance": 0.14,
    "batch/informative": 0.81,
    "judge/spearman": 0.63,
    "judge/failure_rate": 0.12,
    "select/trial": 1.0,
    "select/discarded": 64.0,
    "total/rollout_generated": 12800.0,
    "total/rollout_trained": 12000.0,
    "total/rollout_failed": 3.0,
    "total/rollout_tokens": 1.5e6,
    "total/judge_tokens": 9000.0,
    "eval/accuracy": 0.5,
    "eval/stderr": 0.02,
}
SECONDS = {"judge": 1.0, "rollout": 6.0, "update": 3.0}


def panel(metrics=METRICS, seconds=SECONDS, steps=7, total=20, **options):
    now = [0.0]
    history, pace = StepHistory(), Pace(lambda: now[0])
    history.add(0, 0.0, {"eval/accuracy": 0.4, "eval/stderr": 0.02}, {})
    for step in range(steps + 1):
        if step:
            history.add(step, step / total, metrics, seconds)
        pace.mark(step / total)
        now[0] += 10.0
    heading = Heading("metis · smollm2-135m · arithmetic · local engine", "runs/quickstart", total)
    return LivePanel(options.pop("heading", heading), history, pace, **options)


def drawn(shown, width=80, height=40, **options):
    file = io.StringIO()
    options = {"force_terminal": True, "color_system": None, **options}
    Console(file=file, width=width, height=height, _environ={}, **options).print(shown)
    return file.getvalue()


def row(text, label):
    [line] = [line for line in text.splitlines() if line.startswith(f"│ {label} ")]
    return line.strip("│").strip()


def test_an_accuracy_from_before_the_training_is_said_to_be_so():
    history = StepHistory()
    history.add(0, 0.0, {"eval/accuracy": 0.4, "eval/stderr": 0.02}, {})
    history.add(1, 0.5, {"batch/reward": 0.5}, {"rollout": 1.0})
    heading = Heading("metis", "runs/quickstart", 2)
    text = drawn(LivePanel(heading, history, Pace(lambda: 0.0)))
    assert row(text, "held-out").endswith("0.400 ± 0.020 before training")


def test_everything_has_its_place_at_80_columns():
    text = drawn(panel(doing="rollout"))
    lines = text.splitlines()
    assert "metis · smollm2-135m · arithmetic · local engine" in lines[0]
    assert "runs/quickstart" in lines[-1]
    assert row(text, "step").endswith("━━━━━━───────────  7/20 · 1:20 elapsed · 2:00 left")
    assert row(text, "reward").endswith("▄▄▄▄▄▄▄            0.480 · most is learnt around 0.5")
    assert row(text, "variance").endswith("0.140 · 0.25 at most")
    assert row(text, "informative").endswith("81% of the groups trained on")
    assert row(text, "held-out").endswith("0.500 ± 0.020 · start 0.400 · best 0.500")
    assert row(text, "judge").endswith("on trial · Spearman 0.63 · 12% failed")
    assert row(text, "time").endswith("10 s a step · rolling out")
    assert "█ judge 10%   ▓ rollout 60%   ▒ update 30%" in text
    figures = "12.8k generated, 12k trained on, 448 discarded, 1.5M tokens"
    assert figures in row(text, "rollouts")
    assert "…" not in text.replace(row(text, "rollouts"), "")


def test_a_wide_terminal_has_longer_pictures_and_an_end():
    assert len(drawn(panel(steps=20), width=130).splitlines()[0]) == 130
    assert len(drawn(panel(), width=300).splitlines()[0]) == WIDEST
    assert "9,000 tokens of judgments" in drawn(panel(), width=130)


def test_colours_are_the_terminal_s_own_and_without_them_bars_are_still_told_apart():
    coloured = drawn(panel(), color_system="truecolor")
    assert "\x1b[35m▆" in coloured and "\x1b[36m▆" in coloured
    assert "38;2;" not in coloured and "48;" not in coloured
    plain = drawn(panel(), color_system="truecolor", no_color=True)
    assert "\x1b[3" not in plain and "█▒" not in plain and "█▓▓" in plain


def test_a_run_that_has_not_begun_is_drawn_too():
    text = drawn(panel(steps=0, doing="evaluate"))
    assert row(text, "step").endswith("0/20 · 0:10 elapsed")
    assert row(text, "time").endswith("testing on held-out prompts")
    assert row(text, "judge") == "judge"


def test_a_curriculum_without_a_judge_has_none():
    metrics = {name: value for name, value in METRICS.items() if not name.startswith("judge/")}
    assert row(drawn(panel(metrics)), "judge").split() == ["judge", "none"]


def test_a_step_that_measures_says_so():
    text = drawn(panel({"batch/groups": 0.0, "select/measured": 640.0}))
    assert row(text, "reward").split("  ")[-1].strip() == "measuring, 640 prompts so far"
    assert "·······" in row(text, "variance")


def test_a_budget_that_is_not_in_steps_is_shown_as_a_share():
    text = drawn(panel(heading=Heading("metis", "run", 20, by_steps=False, simulated=True)))
    assert "7 · 35% of budget · 1:20 elapsed" in row(text, "step")
    assert "10 s a step, simulated" in row(text, "time")


def test_stopping_is_said_at_once():
    assert row(drawn(panel(stopping=True)), "step").endswith("7/20 · stopping after this step")


def test_a_low_terminal_keeps_what_matters_most():
    lines = drawn(panel(), height=8).splitlines()
    assert [line.split()[1] for line in lines[1:-1]] == [
        "step",
        "reward",
        "variance",
        "informative",
    ]
    assert len(drawn(panel(), height=1).splitlines()) == 3


def test_a_long_run_folder_keeps_its_end():
    text = drawn(panel(heading=Heading("metis", "deep/" * 30 + "mine", 20)))
    assert "─ …" in text and "deep/mine ─╯" in text


@given(
    width=st.integers(1, 200),
    height=st.integers(1, 50),
    missing=st.sets(st.sampled_from(sorted(METRICS))),
    phases=st.dictionaries(st.sampled_from(["judge", "update", "own"]), st.floats(0, 1e4)),
    steps=st.integers(0, 30),
)
def test_no_size_and_nothing_missing_breaks_it(width, height, missing, phases, steps):
    metrics = {name: value for name, value in METRICS.items() if name not in missing}
    text = drawn(panel(metrics, phases, steps), width, height)
    assert "cannot be drawn" not in text
    assert all(cell_len(line) <= width for line in text.splitlines())


def test_a_drawing_that_fails_says_so_and_does_no_harm():
    shown = panel()
    shown.history.latest = {"batch/reward": "nonsense"}
    assert drawn(shown).startswith("step 7: the view cannot be drawn (")


@pytest.mark.parametrize("width", [80, 130])
def test_a_drawing_knows_its_own_size(width):
    shown = panel()
    lines = drawn(shown, width).splitlines()
    assert shown.drawn == (width, len(lines))
