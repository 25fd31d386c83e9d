"""How a report opens: the run's own name, its diagnosis, and three answers to read."""

import json
import shlex
from html import escape, unescape

import pytest

from metis.cli import main
from metis.report import answers, opening
from metis.run import transcripts
from metis.run.recorded import read_run

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202eabc"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs/mine"
    words = ["engine=simulated", "steps=2", "batch=4", "curriculum=uniform"]
    assert main(["train", *words, "--out", str(folder)]) == 0
    return folder


def page(folder):
    assert main(["report", str(folder)]) == 0
    return (folder / "report.html").read_text("utf-8")


def reproduced(text):
    _, _, rest = text.partition('<pre class="commands">')
    return unescape(rest.partition("</pre>")[0]).splitlines()


def test_a_page_is_named_by_the_run_and_opens_with_its_diagnosis(run):
    text = page(run)
    assert "<title>mine · uniform · METIS report</title>" in text
    assert "<h1>mine · uniform</h1>" in text and "uniform · seed 0 · simulated engine" in text
    places = [text.index(words) for words in ("Did it learn?", "What was wasted?", '"cards"')]
    assert places == sorted(places)


def test_problems_from_a_file_are_named_by_it(tmp_path):
    config = {"task": {"name": "file", "path": "data/sums.jsonl"}, "steps": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "metrics.jsonl").write_text("")
    assert "task sums.jsonl" in opening.summary(read_run(tmp_path))


@pytest.mark.parametrize("inside", [False, True], ids=["above the run", "in it"])
def test_the_commands_of_a_page_work_where_it_is_written(run, monkeypatch, capsys, inside):
    if inside:
        monkeypatch.chdir(run)
    first, *_ = reproduced(page(run if not inside else run.relative_to(run)))
    _, *words = shlex.split(first)
    assert main([*words, "--dry-run"]) == 0
    assert "steps = 2" in capsys.readouterr().out


def test_commands_about_a_run_elsewhere_say_where_they_work(run, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    text = page(run)
    remark, first, _ = reproduced(text)
    assert remark.startswith("#") and str(tmp_path) not in text
    monkeypatch.chdir(run.parent)
    assert main([*shlex.split(first)[1:], "--dry-run"]) == 0


def test_the_diagnosis_of_several_runs_is_short(run, tmp_path):
    assert main(["report", str(run), str(run.parent), "--out", "x"]) == 2
    words = ["engine=simulated", "steps=2", "batch=4", "curriculum=uniform", "seed=1"]
    assert main(["train", *words, "--out", "runs/other"]) == 0
    assert main(["report", "runs/mine", "runs/other", "--out", "both"]) == 0
    text = (tmp_path / "both/report.html").read_text("utf-8")
    assert text.count("Did it learn?") == 2 and "What was wasted?" not in text


def answered(step, *answers, text="What is 1 + 1?"):
    texts, rewards, tokens = zip(*answers, strict=True)
    row = {"step": step, "prompt": "p", "category": "", "failed": 0, "text": text}
    return row | {"answers": texts, "rewards": rewards, "tokens": tokens}


@pytest.fixture
def told(tmp_path):
    def make(*rows, limit=50):
        config = {"engine": {"name": "local", "max_tokens": limit}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        (tmp_path / "metrics.jsonl").write_text("")
        (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        return read_run(tmp_path)

    return make


def test_the_latest_rewarded_unrewarded_and_truncated_answer_are_shown(told):
    run = told(
        answered(1, ("two", 1.0, 5), ("three", 0.0, 6)),
        answered(2, ("2", 1.0, 4), ("one, or", 0.0, 50)),
        answered(3, ("half", 0.5, 4)),
    )
    chosen = answers.latest(answers.logged(run))
    said = {kind: (found[0].step, found[0].turns[-1][1]) for kind, found in chosen.items()}
    assert said == {
        "rewarded": (2, "2"),
        "not rewarded": (1, "three"),
        "truncated": (2, "one, or"),
    }
    text = "".join(answers.section(run))
    assert text.count("<article") == 3 and "What is 1 + 1?" in text
    assert [answer.step for answer in chosen["rewarded"]] == [2, 1], "and those of earlier steps"
    assert "Rewarded, step 2" in text and "Another, of step 1" in text
    assert f"metis inspect {run.folder.name} --answer 2/p/0" in text, "where to see it whole"


def spoken(text, reward, tokens=9, truncated=False):
    said = [{"role": "assistant", "content": text}, {"role": "user", "content": "Sure?"}]
    return {"reward": reward, "tokens": tokens, "truncated": truncated, "messages": said}


def test_transcripts_have_all_turns_of_an_answer(told):
    run = told(answered(1, ("from the log", 1.0, 5)))
    kept = transcripts.Transcripts(run.folder)
    asked = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1?"}]
    for step, text in ((1, "early"), (60, "two"), (120, "late")):
        head = {"step": step, "prompt": "p", "category": "", "messages": asked, "n": 3}
        head["reference"] = "the right <b>answer</b>"
        rows = [spoken(text, 1.0), spoken("cut", 0.0, truncated=True), spoken("lost", None)]
        kept.append("train", head, rows if step < 120 else rows[2:])
    chosen = answers.latest(answers.told(run))
    steps = {kind: [answer.step for answer in found] for kind, found in chosen.items()}
    assert steps == {"rewarded": [60, 1], "truncated": [60, 1]}
    roles = ["system", "user", "assistant", "user"]
    assert [role for role, _ in chosen["rewarded"][0].turns] == roles
    text = "".join(answers.section(run))
    assert text.count("the right &lt;b&gt;answer&lt;/b&gt;") == 4, "with each of the answers"
    assert ">two<" in text and "from the log" not in text and text.count("Sure?") == 4


def test_a_reward_beside_what_was_expected_is_remarked(told):
    run = told(answered(1, ("from the log", 1.0, 5)))
    asked = [{"role": "user", "content": "8 + 9 = 17?"}]
    head = {"step": 1, "prompt": "p", "category": "", "messages": asked, "reference": "17"}
    said = (("18", 1.0), ("17", 1.0), ("So 17.", 0.0), ("17 or 18", 0.0), ("18", 0.5))
    rows = [spoken(text, reward) for text, reward in said]
    transcripts.Transcripts(run.folder).append("train", head, rows)
    without, ending = " (does not contain what was expected)", " (ends with what was expected)"
    assert [answer.remark for answer in answers.told(run)] == [without, "", ending, "", ""]
    assert f"Not rewarded, step 1{ending}" not in "".join(answers.section(run)), "of the last one"


def test_a_question_with_two_answers_is_asked_once_in_markdown(told, tmp_path):
    run = told(answered(1, ("2", 1.0, 5)))
    counts = {"rollout/generated": 8.0, "rollout/failed": 4.0, "rollout/cut_off": 6.0}
    rows = [json.dumps({"schema": 1, "step": step, **counts}) + "\n" for step in (1, 2)]
    (run.folder / "metrics.jsonl").write_text("".join(rows))
    text = opening.markdown([read_run(run.folder)])
    assert text.count("What to change next?") == 1
    assert "of the rollouts failed" in text and "of the answers were truncated" in text


def test_an_answer_is_shown_under_what_it_was_asked(told):
    run = told(answered(1, ("from the log", 1.0, 5)))
    asked = [{"role": "user", "content": "FIRST?"}]
    head = {"step": 1, "prompt": "p", "category": "", "messages": asked, "n": 2}
    other = {**spoken("two", 1.0), "asked": [{"role": "user", "content": "SECOND?"}]}
    transcripts.Transcripts(run.folder).append("train", head, [spoken("one", 0.0), other])
    chosen = answers.latest(answers.told(run))
    opened = {kind: found[0].turns[0][1] for kind, found in chosen.items()}
    assert opened == {"rewarded": "SECOND?", "not rewarded": "FIRST?"}


def test_examples_in_a_prompt_are_named_so(told):
    run = told(answered(1, ("from the log", 1.0, 5)))
    chat = ("system", "Add."), ("user", "1 + 2?"), ("assistant", "3"), ("user", "1 + 1?")
    asked = [{"role": role, "content": text} for role, text in chat]
    head = {"step": 1, "prompt": "p", "category": "", "messages": asked, "n": 1}
    transcripts.Transcripts(run.folder).append("train", head, [spoken("2", 1.0)])
    [answer] = answers.latest(answers.told(run))["rewarded"]
    roles = ["system", "example: user", "example: assistant", "user", "assistant", "user"]
    assert [role for role, _ in answer.turns] == roles, "turns after the question are the run's"


def test_what_was_said_stays_text_and_long_turns_are_folded(told):
    row = answered(1, (HOSTILE, 1.0, 5), (HOSTILE * 100_000, 0.0, 9), text="x" * 700)
    run = told({**row, "prompt": HOSTILE})
    text = "".join(answers.section(run))
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text
    assert escape("<script>alert(1)</script>\\x1b[31m") in text
    assert len(text) < 10 * answers.MOST and "more characters" in text
    assert text.count("<details>") == 3 and "(700 characters)" in text


def test_without_answers_there_is_no_section(told):
    row = answered(1, ("2", 1.0, 5))
    del row["answers"]
    assert "".join(answers.section(told(row))) == ""
