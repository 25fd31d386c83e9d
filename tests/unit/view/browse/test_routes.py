"""What the routes answer about a run: steps, prompts, answers, and what is refused."""

import json
import math
from pathlib import Path
from urllib.parse import quote

import pytest

from metis.cli import main
from metis.view.browse import answers, routes
from metis.view.browse.opened import Opened, open_folders
from metis.view.browse.overview import settings
from metis.view.browse.routes import Routes
from shown_folders import Folder, message

HOSTILE = "</script><b>\x1b[31m\u202e../../etc\ud800\x00"


@pytest.fixture
def ask(folder):
    opened = open_folders([folder.path])
    served = Routes(opened)

    def asked(address, status=200):
        opened[0].index.update()
        found, content = served.answer(address)
        assert found == status, content
        return json.loads(content)

    yield asked
    opened[0].close()


@pytest.fixture
def filled(folder):
    """Two steps: `a` twice, `b` passed over at first; three kinds of answers."""
    texts = {"a": "What is one plus one?", "b": "What is two plus two?"}
    for prompt, text in texts.items():
        folder.log("prompts", {"step": 1, "prompt": prompt, "text": text, "category": "sums"})
    top = {"chosen": True, "reason": "top", "score": 0.2, "distribution": {"0.25": 1.0}}
    passed = {"chosen": False, "reason": "passed over", "score": 0.1}
    folder.log("judgments", {"step": 1, "prompt": "a", **top}, {"step": 1, "prompt": "b", **passed})
    folder.log("judgments", {"step": 2, "prompt": "a", **top}, {"step": 2, "prompt": "b", **top})
    group = {"category": "sums", "tokens": [10, 11], "failed": 0}
    folder.log("rollouts", {"step": 1, "prompt": "a", "rewards": [0.0, 1.0], **group})
    folder.log("rollouts", {"step": 2, "prompt": "a", "rewards": [1.0, 1.0], **group})
    folder.log("rollouts", {"step": 2, "prompt": "b", "rewards": [0.0], **group, "failed": 1})
    folder.say("a", "it is three", "it is two")
    folder.say("a", "it is two", "it is 2", step=2, rewards=[1.0, 1.0])
    folder.say("b", "five", "no number", step=2, rewards=[0.0, None])
    folder.say("v", "held out", step=2, kind="eval", rewards=[1.0])
    folder.log("metrics", {"step": 1, "batch/informative": 1.0, "eval/accuracy": 0.5})
    folder.log("metrics", {"step": 2, "rollout/tokens": 40, "rollout/generated": 4})
    folder.log("evals", {"step": 0, "prompt": "v", "reward": 0.5})
    return folder


def test_an_overview_has_series_filters_and_counts(filled, ask):
    found = ask("0/overview")
    assert found["series"]["accuracy"] == [[1, 0.5]] and found["series"]["length"] == [[2, 10.0]]
    assert (found["steps"], found["last"], found["kinds"]) == (2, 2, {"train": 3, "eval": 1})
    assert found["filters"]["outcome"] == ["all-pass", "failed", "informative"]
    assert found["indexed"]["done"] and found["reasons"]["top"]
    assert found["revision"] == ask("0/overview")["revision"]
    filled.log("metrics", {"step": 3})
    assert found["revision"] != ask("0/overview")["revision"]


def test_a_step_has_what_was_chosen_and_what_was_passed_over_with_their_texts(filled, ask):
    chosen, passed = ask("0/steps/1")["rows"]
    assert (chosen["prompt"], chosen["chosen"], chosen["outcome"]) == ("a", True, "informative")
    assert chosen["text"] == "What is one plus one?" and chosen["rewards"] == [0.0, 1.0]
    assert chosen["variance"] == 0.25 and chosen["distribution"] == {"0.25": 1.0}
    assert (passed["prompt"], passed["chosen"], passed["outcome"]) == ("b", False, "not rolled out")
    assert passed["text"] == "What is two plus two?" and passed["rewards"] is None
    assert ask("0/steps/2")["metrics"]["rollout/tokens"] == 40
    assert ask("0/steps/0")["rows"] == []


def test_prompts_are_counted_searched_and_sorted(filled, ask):
    found = ask("0/prompts?sort=prompt")["items"]
    assert [(row["prompt"], row["seen"], row["chosen"]) for row in found] == [
        *(("a", 2, 2), ("b", 2, 1), ("v", 0, 0))
    ]
    assert (found[0]["mean"], found[0]["outcome"], found[1]["outcome"]) == (
        1.0,
        "all-pass",
        "failed",
    )
    assert [row["prompt"] for row in ask("0/prompts?q=TWO")["items"]] == ["b"]
    assert ask("0/prompts?q=100%25")["total"] == 0, "a sign of SQL is a sign of the text"
    assert [row["prompt"] for row in ask("0/prompts?outcome=all-pass")["items"]] == ["a"]
    assert ask("0/prompts?page=1")["items"] == []


def test_a_prompt_has_its_history_answers_and_neighbours(filled, ask):
    found = ask("0/prompt?id=a")
    assert [row["step"] for row in found["history"]] == [2, 1]
    assert [(each["step"], each["rollout"]) for each in found["answers"]] == [
        *((2, 0), (2, 1), (1, 0), (1, 1))
    ]
    near = {"prompt": "b", "text": "What is two plus two?", "score": 0.2, "step": 2}
    assert found["neighbours"] == [near]
    assert ask("0/prompt?id=v")["evals"] == [[0, 0.5]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", 7),
        ("kind=train", 6),
        ("kind=eval", 1),
        ("prompt=b", 2),
        ("step=1", 2),
        ("from=2&kind=train", 4),
        ("to=1", 2),
        ("reward=right", 4),
        ("reward=wrong", 2),
        ("reward=partial", 0),
        ("failed=1", 1),
        ("truncated=1", 0),
        ("outcome=informative", 2),
        ("category=sums&kind=train", 6),
        ("reason=top&kind=train", 6),
        ("q=two", 2),
        ("q=%22it+is+two%22", 2),
        ("q=it+two&reward=right&step=2", 1),
        ("q=%E7%AD%94", 0),
        ("page=1", 0),
        ("page=99999999999999999999", 0),
    ],
)
def test_filters_of_answers(filled, ask, query, found):
    page = ask(f"0/answers?{query}")
    assert len(page["items"]) == found
    assert page["total"] == (7 if query.startswith("page") else found) and page["exact"]


def test_answers_are_sorted_and_their_hits_are_marked(filled, ask):
    page = ask("0/answers?sort=-tokens&kind=train")["items"]
    assert [row["tokens"] for row in page] == [11, 11, 11, 10, 10, 10]
    item = ask("0/answers?q=two&step=1")["items"][0]
    assert item["text"] == "What is one plus one?"
    [[start, end]] = item["hits"]
    assert item["snippet"][start:end] == "two"


def test_an_answer_has_its_turns_siblings_and_neighbours(folder, ask):
    turns = [message("call"), message("error", "tool"), message("done")]
    folder.say("a", turns, "other", rewards=[0.5, None], reference="seven")
    folder.say("b", "next", step=2, rewards=[1.0])
    found = ask("0/answer?kind=train&step=1&prompt=a&rollout=0")
    assert [turn["role"] for turn in found["said"]] == ["assistant", "tool", "assistant"]
    assert found["messages"][0]["content"] == "What is a?" and found["reference"] == "seven"
    assert ask("0/answer?kind=train&step=2&prompt=b&rollout=0")["reference"] == ""
    assert [each["failure"] for each in found["siblings"]] == [
        None,
        "TypeError: no number (my.py, line 3)",
    ]
    assert found["previous"] is None and found["next"]["rollout"] == 1
    last = ask("0/answer?kind=train&step=1&prompt=a&rollout=1")["next"]
    assert last == {"kind": "train", "step": 2, "prompt": "b", "rollout": 0}


def test_an_answer_that_was_written_a_moment_ago_is_there(folder):
    folder.say("a", "said")
    [opened] = open_folders([folder.path])
    served = Routes([opened])
    opened.index.update()
    folder.say("b", "just said", step=2)
    status, content = served.answer("0/answer?kind=train&step=2&prompt=b&rollout=0")
    assert status == 200 and b"just said" in content
    opened.close()


def test_two_groups_of_a_prompt_in_a_step_are_both_there(folder, ask):
    folder.say("a", "first", "second")
    folder.say("a", "third")
    items = ask("0/answers?sort=step")["items"]
    assert [(row["rollout"], row["snippet"]) for row in items] == [
        *((0, "first"), (1, "second"), (2, "third"))
    ]
    found = ask("0/answer?kind=train&step=1&prompt=a&rollout=2")
    assert found["said"][0]["content"] == "third" and len(found["siblings"]) == 3


def test_answers_follow_each_other_group_by_group_in_lists_and_from_one_to_the_next(folder, ask):
    folder.say("a", "one", "two")
    folder.say("b", "four", "five")
    folder.say("a", "three")
    folder.say("a", "six", step=2)
    order = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("a", 0)]
    listed = ask("0/answers?sort=step")["items"]
    assert [(row["prompt"], row["rollout"]) for row in listed] == order
    walked, at = [listed[0]], listed[0]
    while at := ask(
        "0/answer?kind=train&step={step}&prompt={prompt}&rollout={rollout}".format(**at)
    )["next"]:
        walked.append(at)
    assert [(row["prompt"], row["rollout"]) for row in walked] == order
    back = ask("0/answer?kind=train&step=1&prompt=b&rollout=0")["previous"]
    assert (back["prompt"], back["rollout"]) == ("a", 2)


def test_single_answers_of_an_evaluation_have_no_outcome_as_a_group(folder, ask):
    for name, scores in {"one": [1.0], "two": [1.0, 0.0]}.items():
        given = [
            {"turns": ["2"], "finish": "stop", "scores": {"faithful": score}, "tokens": 3}
            for score in scores
        ]
        folder.log("answers", {"problem": name, "benchmark": "sums", "answers": given})
    outcomes = {row["prompt"]: row["outcome"] for row in ask("0/prompts")["items"]}
    assert outcomes == {"one": "", "two": "informative"}
    assert ask("0/overview")["filters"]["outcome"] == ["informative"]
    assert {row["outcome"] for row in ask("0/steps/0")["rows"]} == {"", "informative"}


def test_an_evaluation_says_what_was_evaluated_on_what():
    about = {"name": "a (best, step 3)", "samples": 8, "max_tokens": 99, "heldout_rows": 32}
    shown = settings({**about, "benchmarks": {"aime24": {"problems": 30}, "math500": {}}})
    assert shown.pop("benchmarks") == "aime24, math500"
    assert shown == {name: about[name] for name in ("name", "samples", "max_tokens")}


def test_an_overview_says_whether_there_are_predictions(folder, ask):
    uniform = {"step": 1, "prompt": "a", "chosen": True, "reason": "uniform", "score": None}
    folder.log("judgments", uniform)
    assert not ask("0/overview")["predicted"]
    folder.log("judgments", {**uniform, "prompt": "b", "score": 0.1})
    assert ask("0/overview")["predicted"]


def test_a_search_that_takes_long_says_so_and_goes_on(folder, ask, monkeypatch):
    monkeypatch.setattr(answers, "PATIENCE", 0.0)
    for place in range(4):
        folder.say(f"p{place}", "it was 4 = four")
    page = ask("0/answers?q=%3D")
    assert (page["total"], page["exact"]) == (0, False)
    monkeypatch.setattr(answers, "PATIENCE", 5.0)
    page = ask("0/answers?q=%3D")
    assert (page["total"], page["exact"]) == (4, True)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        *(("", 404), ("1/overview", 404), ("-1/overview", 404), ("x/overview", 404)),
        *(("0/", 404), ("0/nothing", 404), ("0/steps/9", 404), ("0/steps/x", 400)),
        *(("0/prompt", 404), ("0/prompt?id=..%2F..%2Fconfig.json", 404), ("0/overview/x", 404)),
        *(("0/answers?step=x", 400), ("0/answers?sort=id;DROP", 400), ("0/prompts?sort=x", 400)),
        *(("0/answers?reward=x", 400), ("0/answers?page=x", 400), ("0/answer?kind=train", 400)),
        ("0/answer?kind=..&step=1&prompt=..%2Fconfig&rollout=0", 404),
        (f"0/steps/{'9' * 400}", 404),
    ],
)
def test_what_is_not_there_is_refused(filled, ask, address, status):
    assert "error" in ask(address, status)


def test_hostile_texts_come_through_as_they_are(folder, ask):
    folder.log("judgments", {"step": 1, "prompt": HOSTILE, "chosen": True, "reason": HOSTILE})
    folder.say(HOSTILE, HOSTILE)
    found = ask("0/answers")["items"][0]
    said = HOSTILE.replace("\ud800", "?")
    assert found["prompt"] == said and found["snippet"].startswith("</script>")
    assert ask(f"0/prompt?id={quote(said, safe='')}")["history"]
    assert ask(f"0/answers?q={quote(said.split()[0], safe='')}")["total"] in (0, 1)


ODD = ["..", "../..", "../../config.json", ".", "a/../b", "%2e%2e", "\ud800", "a\udfffb", "?#&=+"]


@pytest.mark.parametrize("name", ODD)
def test_odd_ids_are_found_under_the_name_that_a_list_has(folder, ask, name):
    folder.log("prompts", {"step": 1, "prompt": name, "text": "odd", "category": "sums"})
    folder.log("judgments", {"step": 1, "prompt": name, "chosen": True, "reason": "top"})
    folder.log("rollouts", {"step": 1, "prompt": name, "rewards": [0.0, 1.0], "failed": 0})
    folder.say(name, "one", "two", rewards=[0.0, 1.0])
    [item] = ask("0/prompts")["items"]
    assert item["prompt"] == name.encode("utf-8", "replace").decode()
    named = quote(item["prompt"], safe="")
    assert [row["rewards"] for row in ask(f"0/prompt?id={named}")["history"]] == [[0.0, 1.0]]
    assert [row["prompt"] for row in ask("0/steps/1")["rows"]] == [item["prompt"]]
    assert ask(f"0/answers?prompt={named}")["total"] == 2
    answer = ask(f"0/answer?kind=train&step=1&prompt={named}&rollout=1")
    assert answer["said"][0]["content"] == "two" and answer["prompt"] == item["prompt"]
    with_it = quote(name, safe="", errors="surrogatepass")
    for address in (f"0/{with_it}", f"0/steps/{with_it}", f"{with_it}/overview"):
        ask(address, 400 if "steps" in address else 404)


def test_long_texts_are_cut_and_say_so(folder, ask):
    folder.say("a", "x" * 1_000_000 + "end")
    said = ask("0/answer?kind=train&step=1&prompt=a&rollout=0")["said"][0]["content"]
    assert len(said) < routes.LONGEST + 100 and said.endswith("end")
    assert "900,003 of 1,000,003 characters are left out" in said


def test_numbers_that_json_has_not_are_none(folder, ask):
    (folder.path / "judgments.jsonl").write_text(
        '{"step": 1, "prompt": "a", "chosen": true, "score": NaN, "propensity": Infinity}\n'
    )
    [row] = ask("0/steps/1")["rows"]
    assert row["score"] is None and row["propensity"] is None
    assert not math.isnan(ask("0/prompts")["total"])


def test_a_folder_that_is_given_twice_or_is_none(folder, tmp_path, capsys):
    assert len(open_folders([folder.path, folder.path / "."])) == 1
    (tmp_path / "empty").mkdir()
    for named in ("empty", "nowhere"):
        assert main(["view", str(tmp_path / named)]) == 2
    assert "has no config.json" in capsys.readouterr().err


def test_a_run_that_is_killed_is_still_shown(folder, ask):
    folder.say("a", "seven")
    whole = sum(folder.lengths().values())
    folder.say("b", "eight")
    [file] = (folder.path / "transcripts").iterdir()
    content = file.read_bytes()
    for length in range(whole, len(content)):
        file.write_bytes(content[:length])
        assert ask("0/answers")["total"] == 1
    assert ask("folders")[0]["wrong"] is None


def test_a_damaged_index_is_built_again(folder, ask):
    folder.say("a", "seven")
    served = open_folders([folder.path])
    routed = Routes(served)
    assert routed.answer("0/answers")[0] == 200
    with served[0].index.database.writing() as write:
        write.execute("DROP TABLE answers")
    assert routed.answer("0/answers?kind=train")[0] == 500
    served[0].index.update()
    assert json.loads(routed.answer("0/answers")[1])["total"] == 1
    served[0].close()


def test_a_run_is_running_until_its_budget_is_spent(folder, ask):
    assert ask("folders")[0]["state"] == "running", "its log was written just now"
    (folder.path / "config.json").write_text('{"steps": 2}')
    folder.log("metrics", {"step": 2})
    opened = open_folders([folder.path])
    assert Routes(opened).answer("folders")[1].count(b"finished") == 1
    opened[0].close()


@pytest.mark.parametrize(
    "query", ["e\u0301a", "ª", "x\x00y", '"', "a" * 5000, "* OR NOT ^", "\ud800"]
)
def test_no_search_fails(filled, ask, query):
    found = ask(f"0/answers?q={quote(query, safe='', errors='surrogatepass')}")
    assert found["exact"] and found["total"] in (0, 7)


@pytest.fixture
def comparison(tmp_path):
    """Two variants with one run each."""
    for name in ("uniform-0", "metis-0"):
        (tmp_path / "cmp").mkdir(exist_ok=True)
        run = Folder(tmp_path / "cmp" / name)
        run.log("metrics", {"step": 1, "eval/accuracy": 0.5})
        run.say("a", f"said by {name}")
    return tmp_path / "cmp"


def test_a_member_of_a_comparison_has_one_cache_whichever_way_it_is_opened(comparison, cache):
    member = comparison / "metis-0"
    for folders in ([comparison], [member], [comparison, member], [member, comparison]):
        opened = open_folders(folders)
        served = Routes(opened)
        for each in opened:
            if isinstance(each, Opened):
                assert each.index.update()
        runs = [place for place, each in enumerate(opened) if each.folder.name == "metis-0"]
        assert len(runs) == 1, "it is listed once"
        [item] = json.loads(served.answer(f"{runs[0]}/answers")[1])["items"]
        assert item["snippet"] == "said by metis-0"
        for place, each in enumerate(opened):
            if not isinstance(each, Opened):
                variants = json.loads(served.answer(f"{place}/overview")[1])["variants"]
                assert runs in [variant["runs"] for variant in variants]
        for each in opened:
            each.close()
    assert len(list(cache.glob("*.sqlite"))) == 2


def test_a_damaged_cache_of_a_member_is_built_again_and_the_comparison_is_shown(comparison):
    opened = open_folders([comparison])
    served = Routes(opened)
    assert json.loads(served.answer("0/overview")[1])["kind"] == "comparison"
    opened[1].index.update()
    with opened[1].index.database.writing() as write:
        write.execute("DROP TABLE answers")
    assert served.answer("1/answers")[0] == 500
    opened[1].index.update()
    assert json.loads(served.answer("1/answers")[1])["total"] == 1
    assert served.answer("0/overview")[0] == 200 and served.answer("2/answers")[0] == 200
    for each in opened:
        each.close()


def test_a_comparison_has_its_variants_one_curve_and_what_is_left_out():
    folder = Path(__file__).parents[4] / "evidence/judge-in-training/dapo-hard"
    served = Routes(open_folders([folder]))
    about = json.loads(served.answer("0/overview")[1])
    folders = json.loads(served.answer("folders")[1])
    assert folders[0]["kind"] == "comparison" and about["wrong"] is None
    names = {line["name"]: line["points"] for line in about["curve"]["lines"]}
    assert about["baseline"] in names and all(len(points) > 2 for points in names.values())
    for variant in about["variants"]:
        compared = variant["name"] in names and variant["name"] != about["baseline"]
        assert bool(variant["line"]) == compared
        assert all(folders[run]["kind"] == "run" for run in variant["runs"])
    assert served.answer("0/answers")[0] == 404
    for each in served.opened:
        each.close()
