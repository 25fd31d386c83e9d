"""Logs that are gzipped, as those of published runs: read as plain ones are, and never written."""

import gzip
import json
import shutil

import pytest

from metis import MetisError
from metis.cli import main
from metis.comparisons.schedule import progress
from metis.errors import Damaged
from metis.run.folder import LOGS, RunFolder, read_log
from metis.view.browse.server import Server

ROW = '{{"step": {}, "prompt": "a", "reward": 1.0, "text": "said"}}\n'
ROWS = "".join(map(ROW.format, range(400)))


def pack(folder):
    for log in folder.rglob("*.jsonl"):
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes(), mtime=0))
        log.unlink()


@pytest.mark.parametrize("log", LOGS)
def test_a_gzipped_log_has_the_rows_of_the_plain_one(tmp_path, log):
    (tmp_path / f"{log}.jsonl").write_text(ROWS + '{"step": 1')
    rows, one = read_log(tmp_path, log), read_log(tmp_path, log, having=b'"step": 77,')
    pack(tmp_path)
    assert len(rows) == 400 and [row["step"] for row in one] == [77]
    assert read_log(tmp_path, log) == rows and read_log(tmp_path, log, having=b'"step": 77,') == one


def test_a_line_that_is_no_row_is_named_with_its_file(tmp_path):
    (tmp_path / "evals.jsonl").write_text(f"{ROWS}[]\n")
    pack(tmp_path)
    with pytest.raises(Damaged, match=r"evals\.jsonl\.gz, line 401, is damaged"):
        read_log(tmp_path, "evals")


def test_of_two_forms_the_plain_one_is_the_log(tmp_path):
    (tmp_path / "evals.jsonl").write_text(ROWS)
    pack(tmp_path)
    (tmp_path / "evals.jsonl").write_text(ROWS.splitlines()[7])
    assert [row["step"] for row in read_log(tmp_path, "evals")] == [7]
    (tmp_path / "evals.jsonl").write_text("")
    assert read_log(tmp_path, "evals") == []


def damage(content, at):
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


WHOLE = gzip.compress(ROWS.encode(), mtime=0)
CUT = [WHOLE[:length] for length in (*range(12), len(WHOLE) // 2, *range(-12, 0))]
CHANGED = [damage(WHOLE, at) for at in (0, 2, len(WHOLE) // 2, -8, -1)]


@pytest.mark.parametrize("content", [*CUT, *CHANGED, WHOLE + b"more", ROWS.encode()])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "evals.jsonl.gz").write_bytes(content)
    with pytest.raises(Damaged, match=r"evals\.jsonl\.gz, .*is damaged.*: restore the file") as one:
        read_log(tmp_path, "evals")
    assert one.value.folder == tmp_path and "\n" not in str(one.value)


def test_a_gzipped_log_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "evals.jsonl.gz").mkdir()
    with pytest.raises(MetisError, match=r"evals\.jsonl\.gz' cannot be read"):
        read_log(tmp_path, "evals")


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """A comparison with all its logs, and a copy of it with these gzipped."""
    plain, gzipped = (tmp_path_factory.mktemp(name) for name in ("plain", "gzipped"))
    settings = ["engine=simulated", "steps=6", "evaluate=2", "batch=4", "engine.prompts=60"]
    arms = ["--curricula", "uniform,metis", "--seeds", "0", "--jobs", "1"]
    assert main(["compare", *settings, *arms, "--discard", "--out", str(plain / "cmp")]) == 0
    shutil.copytree(plain / "cmp", gzipped / "cmp")
    pack(gzipped)
    assert not list(gzipped.rglob("*.jsonl"))
    return plain, gzipped


@pytest.mark.parametrize(
    "words",
    [
        ["report", "cmp/metis-0", "cmp/uniform-0", "--out", "out"],
        ["compare", "--out", "cmp"],
        ["view", "cmp", "--bundle", "out"],
        ["view", "cmp/metis-0", "--bundle", "out"],
        ["inspect", "cmp/metis-0"],
        ["inspect", "cmp/metis-0", "--step", "5", "--all"],
    ],
    ids=lambda words: "-".join(words[:3]).replace("/", "."),
)
def test_every_command_shows_the_same(forms, tmp_path, monkeypatch, capsys, words):
    shown = []
    for form in forms:
        place = tmp_path / form.name
        shutil.copytree(form, place)
        monkeypatch.chdir(place)
        assert main(words) == 0
        made = sorted(path for path in place.rglob("*") if ".jsonl" not in path.name)
        files = {path.relative_to(place): path.read_bytes() for path in made if path.is_file()}
        shown.append((capsys.readouterr(), files))
    assert shown[0] == shown[1]


def test_a_page_that_is_served_follows_a_run_from_one_form_to_the_other(forms, tmp_path):
    plain, gzipped = (form / "cmp/metis-0" for form in forms)
    shutil.copytree(plain, tmp_path / "run")
    with Server([tmp_path / "run"], port=0) as server:
        index, routes = server.opened[0].index, server.routes
        assert index.update() and routes.answer("0/steps/5")[0] == 200
        before = routes.answer("0/steps/5")
        shutil.rmtree(tmp_path / "run")
        shutil.copytree(gzipped, tmp_path / "run")
        assert index.update() and routes.answer("0/steps/5") == before
        (tmp_path / "run/rollouts.jsonl.gz").write_bytes(b"")
        index.update()
        assert routes.answer("0/steps/5") != before
        assert b"rollouts.jsonl.gz" in routes.answer("folders")[1]


def test_the_progress_of_a_run_is_in_either_form(forms):
    plain, gzipped = (progress(form / "cmp/metis-0") for form in forms)
    assert plain == gzipped and plain[0] == 6 and "at step 6" in plain[1]


def test_progress_is_none_where_there_is_no_log_or_a_damaged_one(tmp_path):
    assert progress(tmp_path) == (0, "")
    (tmp_path / "metrics.jsonl").write_text('{"step": 3}\n{"st')
    assert progress(tmp_path) == (3, "")
    (tmp_path / "metrics.jsonl").write_text("[]\n")
    assert progress(tmp_path) == (0, "")


def content_of(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def test_a_run_with_gzipped_logs_is_not_trained_over(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "engine=simulated", "steps=4", "batch=4", "engine.prompts=60"]
    assert main([*words, "--out", str(run)]) == 0
    shutil.copytree(run, tmp_path / "whole")
    for log in ("metrics", "timings"):
        (run / f"{log}.jsonl.gz").write_bytes(gzip.compress((run / f"{log}.jsonl").read_bytes()))
        (run / f"{log}.jsonl").unlink()
    (run / ".lock").unlink()
    before, config = content_of(run), json.loads((run / "config.json").read_text())
    capsys.readouterr()
    for more in ([], ["--dry-run"], ["steps=8"]):
        assert main([*words, *more, "--out", str(run)]) == 2
        error = capsys.readouterr().err
        assert "logs are gzipped" in error and f"gunzip {run}/*.jsonl.gz" in error
    with pytest.raises(MetisError, match="logs are gzipped"):
        RunFolder.open(run, config)
    assert content_of(run) == before
    for log in run.glob("*.jsonl.gz"):
        log.with_suffix("").write_bytes(gzip.decompress(log.read_bytes()))
        log.unlink()
    for folder in (run, tmp_path / "whole"):
        assert main([*words, "steps=8", "--out", str(folder)]) == 0
    assert read_log(run, "metrics") == read_log(tmp_path / "whole", "metrics")
    assert read_log(run, "metrics")[-1]["step"] == 8
