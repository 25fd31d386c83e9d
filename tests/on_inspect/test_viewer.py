"""Exported logs as inspect_ai reads them, and in the browser as its viewer shows them."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries
from playwright.sync_api import sync_playwright

from chromium import found, launched
from metis.export.inspect_logs import write_logs
from shown_folders import Folder

ODD = "a/2 ü?#%"
LOG = "train-00001-00002"


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A run with a failed rollout, one of several turns, a truncated one, and two validations."""
    home = tmp_path_factory.mktemp("exported")
    folder = Folder(home / "sums")
    settings = {"seed": 0, "engine": {"name": "local", "model": "some/model"}}
    (folder.path / "config.json").write_text(json.dumps(settings))
    failing = {"rewards": [1.0, 0.0, None, 0.5]}
    folder.say("a/1", "It is \\boxed{4}.", "It is <b>five</b>.", "It ", "Half?", **failing)
    turns = [
        {"role": "assistant", "content": "<tool_call>add</tool_call>"},
        {"role": "tool", "content": "the sum is 4"},
        {"role": "assistant", "content": "So it must be four."},
    ]
    folder.say(ODD, turns, step=2, rewards=[1.0])
    for step in (0, 20):
        folder.say("held", "Yes.", "No.", step=step, kind="eval", rewards=[1.0, 0.0])
    folder.say("held", "0.25", kind="judge")
    write_logs(folder.path, home / "logs")
    return home / "logs"


def test_inspect_reads_every_rollout_with_its_score(logs):
    log = read_eval_log(str(logs / f"{LOG}.eval"))
    assert (log.status, log.eval.model, log.eval.task) == ("success", "some/model", f"sums {LOG}")
    assert log.eval.task_args["engine"]["name"] == "local"
    said = {(each.id, each.epoch): each for each in log.samples}
    assert said.keys() == {*(("1/a/1", epoch) for epoch in (1, 2, 3, 4)), (f"2/{ODD}", 1)}
    right, failed, several = said["1/a/1", 1], said["1/a/1", 3], said[f"2/{ODD}", 1]
    assert right.scores["reward"].as_float() == 1.0
    assert right.output.completion == "It is \\boxed{4}." and right.input[0].text == "What is a/1?"
    assert failed.scores is None and "no number" in failed.error.message
    roles = [message.role for message in several.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert several.metadata["step"] == 2 and several.model_usage["some/model"].output_tokens == 10
    [score] = log.results.scores
    assert score.metrics["mean"].value == pytest.approx(2.5 / 4) and score.unscored_samples == 1


def test_inspect_lists_every_log_with_summaries_of_its_samples(logs):
    listed = {Path(info.name).stem: info for info in list_eval_logs(str(logs))}
    assert listed.keys() == {LOG, "judge-00001", "eval-00000", "eval-00020"}
    for info in listed.values():
        whole, summaries = read_eval_log(info), read_eval_log_sample_summaries(info)
        assert info.task == whole.eval.task
        named = {(each.id, each.epoch): each for each in whole.samples}
        assert {(each.id, each.epoch) for each in summaries} == named.keys()
        for each in summaries:
            assert each.scores == named[each.id, each.epoch].scores


@pytest.fixture(scope="module")
def viewer(logs):
    """The address of `inspect view`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("inspect"), "view", "start"]
    command += ["--log-dir", str(logs), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _await(port, server):
    deadline = time.monotonic() + 120
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("inspect view did not start")


@pytest.fixture(scope="module")
def page():
    with sync_playwright() as playwright:
        if found(playwright) is None:
            pytest.skip("needs Chromium: apt-get install chromium, or playwright install chromium")
        with launched(playwright) as browser:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.set_default_timeout(60_000)
            yield page


def test_the_viewer_lists_the_logs_and_the_rollouts_of_one(viewer, page):
    page.goto(viewer)
    page.get_by_text(f"sums {LOG}", exact=True).click()
    for text in ("1/a/1", "It is <b>five</b>.", f"2/{ODD}"):
        page.get_by_text(text, exact=True).first.wait_for()
    page.get_by_text("0.625").first.wait_for()


def test_the_viewer_shows_all_turns_of_an_answer(viewer, page):
    sample = quote(f"2/{ODD}", safe="")
    page.goto(f"{viewer}/#/tasks/{LOG}.eval/samples/sample/{sample}/1/")
    said = (f"What is {ODD}?", "<tool_call>add</tool_call>", "the sum is 4", "So it must be four.")
    for text in said:
        page.get_by_text(text, exact=True).first.wait_for()
