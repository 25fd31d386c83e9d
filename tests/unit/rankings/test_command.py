"""`metis judge` with a scripted model: what it writes, how it resumes, and what it refuses."""

import json

import numpy as np
import pytest

import metis
from judged import Scripted, asking, judge, rows, written
from metis import Progress, drive
from metis.cli import main
from metis.config import load_config
from metis.core import Embed, Rollout
from metis.rankings import predictions
from scripted import passes

MADE = ("ranking.jsonl", "judge.html", "predictions.jsonl", "readout.state")
CALIBRATE = ["--calibrate", "60"]


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch):
    monkeypatch.setattr(predictions, "ROUND", 50)


@pytest.fixture
def prompts(tmp_path):
    return written(tmp_path / "prompts.jsonl", rows(270))


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A file of prompts, the requests of a ranking that was never stopped, and what it made."""
    folder, engine = tmp_path_factory.mktemp("straight"), Scripted()
    path = written(folder / "prompts.jsonl", rows(270))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, "ROUND", 50)
        assert judge(path, folder / "out", *CALIBRATE, engine=engine) == 0
    return path, len(engine.asked), made(folder / "out")


def ranking(out):
    return [json.loads(line) for line in (out / "ranking.jsonl").read_text().splitlines()]


def made(out):
    whole = {name: (out / name).read_bytes() for name in MADE}
    return whole | {"outcomes": (out / "calibration/outcomes.jsonl").read_bytes()}


def test_all_prompts_are_ranked_by_what_the_sample_taught(prompts, tmp_path, capsys):
    engine = Scripted()
    assert judge(prompts, tmp_path / "out", *CALIBRATE, engine=engine) == 0
    lines = ranking(tmp_path / "out")
    assert [line["rank"] for line in lines] == list(range(1, 271))
    assert {line["row"] for line in lines} == set(range(1, 271))
    assert all(line["id"] == f"prompts:p{line['row'] - 1}" for line in lines)
    variances = [line["expected_variance"] for line in lines]
    assert variances == sorted(variances, reverse=True)
    levels = [(line["row"] - 1) % 9 for line in lines]
    assert {*levels[:90]} <= {3, 4, 5} and {*levels[-60:]} == {0, 8}
    known = [line for line in lines if "measured_variance" in line]
    assert len(known) == 60 == sum(len(r.prompts) for r in engine.asked if isinstance(r, Rollout))
    for line in known:
        assert line["measured_pass_rate"] == (line["row"] - 1) % 9 / 8
        assert line["expected_pass_rate"] == pytest.approx(line["measured_pass_rate"], abs=0.15)
    said = capsys.readouterr().out
    assert "270 prompts ranked for scripted" in said and "judge.html" in said


def test_nemotron_trains_by_a_ranking_of_its_file(straight):
    """All pass rates are known, so nothing is measured."""
    path, *_ = straight
    words = ["engine.model=none", "task=file", f"task.path={path}", "task.heldout=20", "batch=8"]
    words += ["task.problem=prompt", "curriculum=nemotron"]
    words += [f"curriculum.rates={path.parent / 'out/ranking.jsonl'}"]
    config = load_config(None, words)
    pool, curriculum = config.pool(), config.curriculum
    curriculum.check(pool)
    batch = drive(curriculum.step(pool, Progress(0)), Scripted())
    assert len(pool) == 250 and len(batch.groups) == 8 and curriculum.complete
    expected = {line["id"]: line for line in ranking(path.parent / "out")}
    for prompt, rate in zip(pool.prompts, curriculum.known, strict=True):
        line = expected[prompt.id]
        assert rate == line.get("measured_pass_rate", line["expected_pass_rate"])


@pytest.mark.parametrize("killed", [1, 2, 5, 8, 9, 10, 11, 14, 16])
def test_a_ranking_that_was_killed_goes_on_to_the_same_bytes(straight, tmp_path, killed):
    """Rounds of rollouts, the states of the sample, and rounds of states."""
    path, asked, expected = straight
    assert asked == 8 + 2 + 6
    out, rest = tmp_path / "out", Scripted()
    assert judge(path, out, *CALIBRATE, engine=Scripted(killed)) == 130
    assert judge(path, out, *CALIBRATE, engine=rest) == 0
    assert made(out) == expected
    assert len(rest.asked) <= asked + 2 - killed


@pytest.mark.parametrize("lines", [0, 3, 50, 170, 269])
def test_a_line_that_was_not_written_to_its_end_is_predicted_again(straight, tmp_path, lines):
    path, _, before = straight
    out = tmp_path / "out"
    assert judge(path, out, *CALIBRATE) == 0
    log = out / "predictions.jsonl"
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(whole[:lines]) + whole[lines][:9])
    (out / "ranking.jsonl").unlink()
    assert judge(path, out, *CALIBRATE) == 0
    assert made(out) == before


def test_a_finished_ranking_is_shown_without_a_model(prompts, tmp_path, capsys):
    assert judge(prompts, tmp_path / "out", *CALIBRATE) == 0
    said, before = capsys.readouterr().out, made(tmp_path / "out")
    engine = Scripted()
    assert judge(prompts, tmp_path / "out", *CALIBRATE, engine=engine) == 0
    assert engine.asked == [] and made(tmp_path / "out") == before
    (shown, again) = (text[text.index("# Ranking") :] for text in (said, capsys.readouterr().out))
    assert again == shown


def test_another_file_or_other_settings_are_refused(prompts, tmp_path, capsys):
    out = tmp_path / "out"
    assert judge(prompts, out, *CALIBRATE) == 0
    for words in (["--calibrate", "61"], [*CALIBRATE, "group=4"]):
        assert judge(prompts, out, *words) == 2
        assert "name another folder" in capsys.readouterr().err
    written(prompts, rows(271))
    assert judge(prompts, out, *CALIBRATE) == 2
    assert "prompts.sha256" in capsys.readouterr().err


def test_prompts_without_a_state_rank_last(prompts, tmp_path):
    class Overflowing(Scripted):
        def state(self, text):
            lost = text.startswith("No. 7 ")
            return np.full(5, np.nan, np.float32) if lost else super().state(text)

    assert judge(prompts, tmp_path / "out", *CALIBRATE, engine=Overflowing()) == 0
    last = ranking(tmp_path / "out")[-1]
    assert (last["id"], last["expected_variance"]) == ("prompts:p7", None)
    assert "1 prompts have no finite hidden state" in (tmp_path / "out/judge.html").read_text()


def test_continuous_rewards_have_a_variance_and_no_pass_rate(prompts, tmp_path):
    words = [*CALIBRATE, "task.rewards=continuous"]
    assert judge(prompts, tmp_path / "out", *words) == 0
    lines = ranking(tmp_path / "out")
    assert all(line["expected_pass_rate"] is None for line in lines)
    assert all(0 <= line["expected_variance"] <= 0.25 for line in lines)
    assert "expected pass rate" not in (tmp_path / "out/judge.html").read_text()


def test_chance_is_called_chance(prompts, tmp_path, capsys):
    class Blind(Scripted):
        def state(self, text):
            return np.random.default_rng(sum(text.encode())).normal(size=5).astype(np.float32)

    class Hopeless(Scripted):
        def rollout(self, prompts, n):
            return [passes(prompt, 0, n) for prompt in prompts]

    assert judge(prompts, tmp_path / "blind", *CALIBRATE, engine=Blind()) == 0
    assert "not shown to be better than chance" in capsys.readouterr().out
    assert judge(prompts, tmp_path / "hopeless", *CALIBRATE, engine=Hopeless()) == 0
    assert "No rank correlation could be measured" in capsys.readouterr().out
    page = (tmp_path / "hopeless/judge.html").read_text()
    assert "None of 60 prompts is informative" in page


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"problem": "level 1", "answer": "1"}, "problem"),
        ({"question": "level 1", "answer": "1"}, "question"),
        ({"prompt": [{"role": "user", "content": "level 1"}], "answer": "1"}, "prompt.0.content"),
    ],
)
def test_the_field_of_the_text_is_found(tmp_path, given, field):
    (key, text), *_ = given.items()
    more = [{**given, key: _more(text, i)} for i in range(1, 20)]
    path = written(tmp_path / "mine.jsonl", [given, *more])
    assert judge(path, tmp_path / "out") == 0
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["task"]["problem"] == field and len(ranking(tmp_path / "out")) == 20


def _more(text, i):
    if isinstance(text, str):
        return f"{text}. {i}"
    return [{**text[0], "content": f"{text[0]['content']}. {i}"}]


def test_rows_that_cannot_be_trained_on_are_left_out_and_said(tmp_path, capsys):
    given = [*rows(20), {"prompt": "", "answer": "1"}, {"prompt": "level 2", "answer": ""}]
    assert judge(written(tmp_path / "mine.jsonl", given), tmp_path / "out") == 0
    assert len(ranking(tmp_path / "out")) == 20
    assert "20 of 22 rows are used" in capsys.readouterr().err


def test_the_math_task_reads_rows_too(tmp_path):
    path = written(tmp_path / "mine.jsonl", rows(20))
    engine = Scripted()
    assert judge(path, tmp_path / "out", "task=math", "task.problem=prompt", engine=engine) == 0
    assert len(ranking(tmp_path / "out")) == 20
    states = [request for request in engine.asked if isinstance(request, Embed)]
    assert all("\\boxed{}" in chat[-1]["content"] for asked in states for chat in asked.prompts)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--calibrate", "1"], "--calibrate = 1: use at least 2"),
        (["--pooling", "http://127.0.0.1:9"], "give --server"),
        (["task=arithmetic"], "task = 'arithmetic' does not read prompts row by row"),
        (["task.problem=text"], "no field 'text'"),
        (["engine=simulated"], "engine = 'simulated': rank with engine=local"),
        (["engine=verl"], "engine = 'verl': rank with engine=local"),
        (["--server", "gpu:8000"], "--server = 'gpu:8000': a URL starts with http"),
        (["curriculum.judge=readout", "--server", "http://127.0.0.1:9"], "use 1"),
        (["--server", "http://127.0.0.1:9"], "--server = http://127.0.0.1:9/v1/chat/completions"),
    ],
)
def test_what_cannot_be_ranked_is_refused(prompts, tmp_path, capsys, words, said):
    out = tmp_path / "out"
    assert main(["judge", "scripted", str(prompts), *words, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        ("", "is empty"),
        ("{}\n", "no field 'problem'"),
        ('{"prompt": "a", "answer": 1}\n', "has 1 prompts: rank at least 2"),
        ('{"prompt": [{"content": "a"}, {"content": "b"}], "answer": 1}\n', "no chat of one"),
        ("no json\n", "line 1, is no JSON object"),
    ],
)
def test_a_file_that_cannot_be_ranked_is_refused(tmp_path, capsys, content, said):
    path, out = tmp_path / "prompts.jsonl", tmp_path / "out"
    if content is not None:
        path.write_text(content)
    with asking(Scripted()):
        assert main(["judge", "scripted", str(path), "--out", str(out)]) == 2
    assert said in capsys.readouterr().err and not out.exists()


def test_a_call_does_the_same_and_its_folder_opens_again(tmp_path, capsys):
    path, given = written(tmp_path / "prompts.jsonl", rows(60)), rows(60)
    assert judge(path, tmp_path / "out", "--calibrate", "20") == 0
    capsys.readouterr()
    with asking(Scripted()):
        called = metis.judge("scripted", path, calibrate=20, out=tmp_path / "called", show=False)
        held = metis.judge("scripted", given, calibrate=20, out=tmp_path / "held", show=False)
    assert capsys.readouterr().out == ""
    assert made(called.path) == made(tmp_path / "out")
    again = metis.load(tmp_path / "called")
    assert isinstance(again, metis.RankingResult) and again.ranking == called.ranking
    assert len(again.ranking) == 60 and len(again.calibration.outcomes) == 20
    assert repr(again) == f"<ranking {called.path}: 60 prompts, model scripted>"
    assert [line["row"] for line in held.ranking] == [line["row"] for line in called.ranking]
