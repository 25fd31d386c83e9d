"""The view on a terminal, in a pipe, and when whoever watched it is gone."""

import io
import os
import pty
import signal
import subprocess
import sys

import pytest
from rich.console import Console

from metis.config import load_config
from metis.run.folder import read_log
from metis.view import TerminalView, heading

STEP = {"batch/groups": 4.0, "batch/reward": 0.5, "batch/variance": 0.125, "judge/spearman": 0.25}
TEST = {"eval/accuracy": 0.5, "eval/stderr": 0.03125}
SHORT = ["engine=simulated", "steps=4", "batch=4", "group=2", "engine.prompts=40", "evaluate=2"]
COMMAND = [sys.executable, "-m", "metis.cli", "train", *SHORT, "--out", "run"]


def title(tmp_path, *settings):
    return heading(load_config(None, ["engine=simulated", "steps=8", *settings]), tmp_path / "run")


def console(terminal, width=80, file=None):
    return Console(
        file=file or io.StringIO(),
        force_terminal=terminal,
        color_system=None,
        width=width,
        height=30,
        soft_wrap=True,
        markup=False,
        highlight=False,
        _environ={"TERM": "xterm"},
    )


def watch(shown, tmp_path, every=2):
    """A short run as the training loop shows it."""
    with TerminalView(shown, title(tmp_path), every) as view:
        view.phase("evaluate")
        view.step(0, 0.0, TEST, {})
        view.step(1, 0.125, {"batch/groups": 0.0, "select/measured": 64.0}, {"rollout": 1.0})
        view.step(2, 0.25, {"batch/groups": 0.0, "select/measured": 128.0}, {"rollout": 1.0})
        view.notice(2, "a word [with brackets] for the person who watches")
        view.step(3, 0.375, STEP, {"rollout": 1.0})
        view.step(4, 0.5, {"batch/groups": 0.0}, {})
        view.step(6, 0.75, STEP | TEST, {"rollout": 1.0})
    return shown.file.getvalue()


def test_a_file_gets_whole_lines_and_no_control_codes(tmp_path):
    assert watch(console(False, width=20), tmp_path).splitlines() == [
        f"metis · simulated engine → {tmp_path / 'run'}",
        "a simulated learner, not a language model: it exercises the loop",
        "step 0/8 · held-out accuracy 0.500 ± 0.031",
        "step 2/8 · measuring, 128 prompts so far",
        "step 2: a word [with brackets] for the person who watches",
        "step 4/8 · no update in this step",
        "step 6/8 · reward 0.500 · v 0.125 · judge ρ 0.250 · held-out accuracy 0.500 ± 0.031",
    ]


def test_a_long_test_says_how_far_it_has_come_now_and_then(tmp_path):
    shown, now = console(False), [0.0]
    with TerminalView(shown, title(tmp_path), 1) as view:
        view.pace.clock = lambda: now[0]
        for began in (0.0, 1000.0):
            now[0] = began
            view.phase("evaluate")
            for done in range(1, 101):
                now[0] = began + 0.7 * done
                view.count(done, 400)
    lines = [line for line in shown.file.getvalue().splitlines() if line.startswith("tested")]
    assert (
        lines
        == [
            "tested 43 of 400 prompts · about 4:10 left",
            "tested 86 of 400 prompts · about 3:40 left",
        ]
        * 2
    )


def test_a_test_that_answers_nothing_for_long_is_heard_of(tmp_path):
    """Answers may all end together, minutes after they began."""
    shown, now = console(False), [0.0]
    with TerminalView(shown, title(tmp_path), 1) as view:
        view.pace.clock = lambda: now[0]
        view.phase("evaluate")
        view.printed = 0.0
        for now[0] in range(0, 100, 10):
            view.beat()
    lines = [line for line in shown.file.getvalue().splitlines() if "so far" in line]
    assert [line.split("for ")[1] for line in lines] == [
        "0:30 so far",
        "1:00 so far",
        "1:30 so far",
    ]


def test_a_terminal_counts_the_prompts_of_a_test(tmp_path):
    shown = console(True)
    with TerminalView(shown, title(tmp_path), 1) as view:
        for step in (0, 1):
            view.phase("evaluate")
            view.live.refresh()
            view.count(120, 500)
            start = len(shown.file.getvalue())
            view.live.refresh()
            assert "tested 120 of 500 prompts" in shown.file.getvalue()[start:]
            view.step(step, 0.1, TEST | STEP, {"rollout": 123.0})
        view.phase("rollout")
        start = len(shown.file.getvalue())
        view.live.refresh()
        assert "tested" not in shown.file.getvalue()[start:]


def test_a_file_is_never_silent_for_long(tmp_path):
    """A step in ten is shown, and each that ends half a minute after the last line."""
    shown, now = console(False), [0.0]
    with TerminalView(shown, title(tmp_path), 10) as view:
        view.pace.clock = lambda: now[0]
        view.printed = 0.0
        for step in range(1, 8):
            now[0] = 12.0 * step
            view.step(step, step / 8, STEP, {})
    lines = [line for line in shown.file.getvalue().splitlines() if line.startswith("step")]
    assert [line.split(" ")[1] for line in lines] == ["3/8", "6/8"]
    assert lines[0].endswith(" · 1:00 left")


def test_the_last_step_is_always_shown(tmp_path):
    shown = console(False)
    with TerminalView(shown, title(tmp_path), 100) as view:
        view.step(7, 1.0, STEP, {})
    assert "step 7/8 · reward 0.500" in shown.file.getvalue()


def test_a_terminal_keeps_the_panel_below_the_notices(tmp_path):
    text = watch(console(True), tmp_path)
    assert text.index("a word [with brackets]") < text.rindex("╭─")
    last = text[text.rindex("╭─") :]
    assert "6/8" in last and "0.500 ± 0.031" in last and "testing" not in last
    assert "step 2/8" not in text
    assert last.rstrip().endswith("\x1b[?25h")  # the cursor is back


@pytest.mark.parametrize("file", [io.TextIOWrapper(io.BytesIO(), "ascii", "replace")])
def test_a_terminal_without_unicode_gets_lines(tmp_path, file):
    assert TerminalView(console(True, file=file), title(tmp_path), 1).live is None


def test_a_narrower_window_is_wiped_of_the_lines_it_wrapped(tmp_path):
    shown = console(True, width=120)
    with TerminalView(shown, title(tmp_path), 1) as view:
        view.live.refresh()
        width, height = view.panel.drawn
        assert width == 120
        shown.width = 60
        start = len(shown.file.getvalue())
        view.live.refresh()
        written = shown.file.getvalue()[start:]
        assert written.split("╭")[0].count("\x1b[1A") == height + (height - 1)
        assert view.panel.drawn == (60, height)


def test_a_resumed_run_shows_what_was_before(tmp_path):
    shown = console(True)
    with TerminalView(shown, title(tmp_path), 1) as view:
        before = [{"step": 0, **TEST}, *({"step": step, **STEP} for step in (1, 2, 3))]
        timings = [{"schema": 1, "step": 3, "rollout": 6.0, "judge": 3.0, "elapsed": 9.0}]
        view.resume(3, 0.375, before, timings)
        assert view.history.series["batch/reward"] == [0.5, 0.5, 0.5]
        assert view.history.phases == {"rollout": 2.0, "judge": 1.0}
        assert view.history.tested == (0.5, 0.03125)
    assert "step 3: " in shown.file.getvalue() and "resuming from here" in shown.file.getvalue()


class Gone(io.StringIO):
    def write(self, text):
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_that_is_gone_is_not_written_to_again(tmp_path, terminal):
    shown = console(terminal, file=Gone())
    assert watch(shown, tmp_path) == ""
    assert shown.quiet


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "metis · simulated engine"),
        (["curriculum.preset=paper"], "metis (paper) · simulated engine"),
        (["curriculum=uniform"], "uniform · simulated engine"),
        (["curriculum=sec", "curriculum.preset=paper"], "sec (paper) · simulated engine"),
        (["engine=local", "engine.model=/models/Qwen"], "metis · Qwen · arithmetic · local engine"),
    ],
)
def test_a_title_names_curriculum_model_task_and_engine(tmp_path, settings, words):
    assert title(tmp_path, *settings).title == words


def test_only_a_budget_of_steps_is_counted_in_steps(tmp_path):
    assert title(tmp_path).by_steps
    assert not title(tmp_path, "tokens=1000").by_steps
    assert not title(tmp_path, "seconds=10").by_steps


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return {**inherited, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}


def on_terminal(environment, read_all):
    """Train on a pseudo-terminal; what it showed, what it complained of, and its exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(COMMAND, stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    shown = os.read(ours, 10)
    while read_all:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # what Linux makes of a terminal whose other end is closed
            break
    os.close(ours)
    return shown.decode(errors="replace"), process.communicate()[1], process.returncode


def test_a_real_terminal_sees_the_panel_and_then_the_summary(environment):
    shown, errors, code = on_terminal(environment, read_all=True)
    assert (errors, code) == (b"", 0)
    last = shown[shown.rindex("╭─") :]
    assert "4/4" in last
    assert last.index("╰─") < last.index("held-out accuracy") < last.index("run folder: run")


def test_a_run_outlives_its_terminal(environment, tmp_path):
    _, errors, code = on_terminal(environment, read_all=False)
    assert (errors, code) == (b"", 0)
    assert len(read_log(tmp_path / "run", "metrics")) == 5


def test_a_pipe_is_told_that_an_interrupt_was_heard(environment):
    endless = [word.replace("steps=4", "steps=1000000") for word in COMMAND]
    process = subprocess.Popen(endless, stdout=subprocess.PIPE, env=environment, text=True)
    for line in process.stdout:
        if line.startswith("step 2/"):
            process.send_signal(signal.SIGINT)
            break
    said = process.communicate()[0].splitlines()
    assert process.returncode == 130
    assert "stopping after this step; once more stops at once" in said
    assert said[-1].startswith("stopped after step")


def test_a_run_outlives_the_reader_of_its_lines(environment, tmp_path):
    process = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (errors, process.wait()) == (b"", 0)
    assert len(read_log(tmp_path / "run", "metrics")) == 5
