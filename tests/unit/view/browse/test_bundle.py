"""`metis view --bundle`: a folder with everything the page needs."""

import hashlib
import json
import re
import shutil
from importlib import resources

import pytest

from metis.cli import main
from metis.view.browse import assets, bundle
from metis.view.browse.bundle import script_name

PAGE = resources.files("metis.view.browse") / "page"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    settings = ["engine=simulated", "engine.prompts=60", "batch=4", "steps=3", "evaluate=0"]
    assert main(["train", *settings, "--out", str(folder)]) == 0
    return folder


def handed_over(out, address):
    """What a script of a bundle hands to the page."""
    script = (out / "data" / script_name(address)).read_text()
    start = f"metis.answer({json.dumps(address)}, "
    assert script.startswith(start)
    return json.loads(script.removeprefix(start).removesuffix(");\n"))


def test_a_bundle_has_all_files_and_what_they_ask_for(run, tmp_path, capsys):
    out = tmp_path / "deep/page"
    assert main(["view", str(run), "--bundle", str(out)]) == 0
    assert capsys.readouterr().out.endswith(f"page: {out / 'index.html'}\n")
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    own = {name for name in files if not name.startswith("data/")}
    assert own == {*assets.FILES, *assets.names(*assets.LICENCES)}
    assert handed_over(out, "folders")[0]["label"] == "run · metis · seed 0"
    assert handed_over(out, "0/overview")["last"] == 3
    rows = [row for step in (1, 2, 3) for row in handed_over(out, f"0/steps/{step}")["rows"]]
    assert len(rows) == 3 * 4 * 8 and sum(row["chosen"] for row in rows) == 12
    for row in rows:
        name = row["prompt"].replace(":", "%3A")
        assert handed_over(out, f"0/prompt?id={name}")["history"]
    assert str(tmp_path) not in "".join(path.read_text() for path in out.rglob("*.js"))


@pytest.mark.parametrize("name", ["..", "../../x", "%2e%2e/x", "\ud800"])
def test_ids_that_look_like_paths_are_names_of_scripts(folder, tmp_path, name):
    folder.say(name, "one")
    out = tmp_path / "page"
    assert main(["view", str(folder.path), "--bundle", str(out)]) == 0
    [item] = handed_over(out, "0/answers")["items"]
    where = f"0/answer?kind=train&step=1&prompt={bundle._quoted(item['prompt'])}&rollout=0"
    assert handed_over(out, where)["said"][0]["content"] == "one"
    assert {path.name for path in tmp_path.iterdir()} == {"run", "page"}
    assert {path.parent for path in out.rglob("*.js")} <= {out, out / "data", out / "vendor"}


def test_a_bundle_says_what_it_leaves_out(folder, tmp_path, capsys, monkeypatch):
    for step in (1, 2):
        folder.say("a/?", "one", "two", step=step)
    folder.say("x" * 300, "three")
    out = tmp_path / "page"
    assert main(["view", str(folder.path), "--bundle", str(out)]) == 0
    assert "left out: 2 pages" in capsys.readouterr().err, "a name that is no file's"
    where = "0/answer?kind=train&step=1&prompt=a%2F%3F&rollout=1"
    assert handed_over(out, where)["said"][0]["content"] == "two"
    assert handed_over(out, "0/answers?kind=train&reward=right")["total"] == 2
    monkeypatch.setattr(bundle, "MOST", 15)
    assert main(["view", str(folder.path), "--bundle", str(tmp_path / "small")]) == 0
    assert len(list((tmp_path / "small/data").iterdir())) == 15
    assert "left out" in capsys.readouterr().err


def test_the_page_asks_for_nothing_from_elsewhere():
    page = (PAGE / "index.html").read_text("utf-8")
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert set(named) == {*assets.FILES, "data:,"} - {"index.html"}
    for name in assets.FILES:
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
    comparison, *runs = handed_over(tmp_path / "page", "folders")
    assert comparison["kind"] == "comparison"
    assert [each["label"] for each in runs] == [
        *("uniform-0 · metis · seed 0", "uniform-1 · metis · seed 0")
    ]
    about = handed_over(tmp_path / "page", "0/overview")
    assert about["variants"] == [{"name": "uniform", "runs": [1, 2], "line": None}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "there is no such folder"),
        (["run", "--bundle", "page", "--port", "0"], "a bundle needs none"),
        (["run", "--bundle", "page", "--token"], "a bundle needs none"),
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
    out = tmp_path / "page"
    assert main(["view", str(run), str(other), "--bundle", str(out)]) == 0
    assert "rollouts.jsonl, line 1" in capsys.readouterr().err
    damaged, whole = handed_over(out, "folders")
    assert "rollouts.jsonl, line 1" in damaged["wrong"] and whole["wrong"] is None
    assert handed_over(out, "0/steps/1")["rows"], "what can be read is there"
    assert main(["view", str(run), "--bundle", str(tmp_path / "alone")]) == 2


def test_a_link_to_a_run_elsewhere_is_not_followed(run, tmp_path):
    comparison = tmp_path / "cmp"
    comparison.mkdir()
    (comparison / "uniform-0").symlink_to(run)
    assert main(["view", str(comparison), "--bundle", str(tmp_path / "page")]) == 2


def test_a_bundle_goes_into_a_new_folder(run, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/index.html").write_text("my own page")
    assert main(["view", str(run), "--bundle", str(tmp_path / "mine")]) == 2
    assert "mine" in capsys.readouterr().err
    assert (tmp_path / "mine/index.html").read_text() == "my own page"
