"""`metis view --bundle`: a folder with everything the page needs."""

import hashlib
import json
import re
import shutil
from importlib import resources

import pytest

from metis.cli import main
from metis.view.browse import data

PAGE = resources.files("metis.view.browse") / "page"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    settings = ["engine=simulated", "engine.prompts=60", "batch=4", "steps=3", "evaluate=0"]
    assert main(["train", *settings, "--out", str(folder)]) == 0
    return folder


def test_a_bundle_has_all_files_and_all_rows(run, tmp_path, capsys):
    out = tmp_path / "deep/page"
    assert main(["view", str(run), "--bundle", str(out)]) == 0
    assert capsys.readouterr().out.endswith(f"page: {out / 'index.html'}\n")
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files == {*data.FILES, *data.LICENCES, "runs.js", "data/0.js"}
    rows = (out / "data/0.js").read_text()
    document = json.loads(rows.removeprefix("metis.add(0, ").removesuffix(");\n"))
    groups = [row for row in document["rows"] if row["outcome"] != "not rolled out"]
    assert len(groups) == 12 and len(document["rows"]) == 3 * 4 * 8
    assert str(tmp_path) not in "".join(path.read_text() for path in out.rglob("*.js"))


def test_the_page_asks_for_nothing_from_elsewhere():
    page = (PAGE / "index.html").read_text("utf-8")
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert set(named) == {*data.FILES, "runs.js", "data:,"} - {"index.html"}
    for name in data.FILES:
        if not name.startswith("vendor/"):
            assert "innerHTML" not in (PAGE / name).read_text("utf-8")


def test_libraries_are_small_licensed_and_recorded():
    files = [path for path in (PAGE / "vendor").iterdir() if path.name != "VENDORED.md"]
    assert sum(len(path.read_bytes()) for path in files) < 400_000
    record = (PAGE / "vendor" / "VENDORED.md").read_text("utf-8")
    for path in files:
        assert f"`{path.name}`" in record
        if path.suffix != ".txt":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            assert digest in record, f"{path.name} is not the file that is recorded"


def test_a_comparison_is_all_of_its_runs(run, tmp_path):
    comparison = tmp_path / "cmp"
    for seed in (0, 1):
        (comparison / f"uniform-{seed}").mkdir(parents=True)
        for name in ("config.json", "metrics.jsonl"):
            (comparison / f"uniform-{seed}" / name).write_bytes((run / name).read_bytes())
    assert main(["view", str(comparison), "--bundle", str(tmp_path / "page")]) == 0
    assert (tmp_path / "page/runs.js").read_text() == (
        'metis.list(["metis \\u00b7 seed 0 \\u00b7 uniform-0", '
        '"metis \\u00b7 seed 0 \\u00b7 uniform-1"]);\n'
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "there is no such folder"),
        (["run", "--bundle", "page", "--port", "0"], "a bundle needs none"),
        (["run", "--bundle", "run/config.json"], "is a file: name a folder"),
        (["run", "--port", "x"], "--port"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["view", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_log_is_for_the_page_to_say(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other")
    (run / "rollouts.jsonl").write_text("{}\n")
    assert main(["view", str(run), str(other), "--bundle", str(tmp_path / "page")]) == 0
    assert "rollouts.jsonl, line 1, is damaged: restore" in capsys.readouterr().err
    said = (tmp_path / "page/data/0.js").read_text()
    assert said == 'metis.fail(0, "rollouts.jsonl, line 1, is damaged");\n'
    assert (tmp_path / "page/data/1.js").read_text().startswith("metis.add(1, ")


def test_a_run_of_a_comparison_that_cannot_be_read_is_left_out(run, tmp_path, capsys):
    comparison, out = tmp_path / "cmp", tmp_path / "page"
    for seed in (0, 1):
        shutil.copytree(run, comparison / f"uniform-{seed}")
    (comparison / "uniform-0/metrics.jsonl").write_text("{}\n")
    assert main(["view", str(comparison), "--bundle", str(out)]) == 0
    assert "left out: " in capsys.readouterr().err
    assert [path.name for path in (out / "data").iterdir()] == ["0.js"]
    (comparison / "uniform-1/metrics.jsonl").unlink()
    assert main(["view", str(comparison), "--bundle", str(out)]) == 2
    assert "has no runs that can be read" in capsys.readouterr().err
