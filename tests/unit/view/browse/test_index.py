"""The index of a folder: it follows what grows, is cut, rewritten or damaged, and is a cache."""

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.run.transcripts import SEGMENT, Transcripts, segments
from metis.view.browse import database
from metis.view.browse.answers import Answers
from metis.view.browse.index import Index
from shown_folders import Folder


@pytest.fixture
def index(folder):
    opened = Index(folder.path)
    yield opened
    opened.close()


def found(index, **asked):
    """Prompts and rollouts of the answers that are found."""
    page = Answers(index.folder, index.database).page(asked)
    assert page["total"] == len(page["items"]) or len(page["items"]) == page["size"]
    return sorted((item["step"], item["prompt"], item["rollout"]) for item in page["items"])


def count(index, table):
    return index.database.one(f"SELECT count(*) FROM {table}")[0]


def test_it_follows_a_run_that_grows(folder, index):
    folder.say("a", "seven apples", "eight pears")
    assert index.update() and found(index, q="apples") == [(1, "a", 0)]
    folder.say("b", "nine apples", step=2)
    folder.log("judgments", {"step": 2, "prompt": "b", "chosen": True, "reason": "top"})
    before = index.database.revision
    assert index.update()
    assert found(index, q="apples") == [(1, "a", 0), (2, "b", 0)]
    assert found(index, q="apples", reason="top") == [(2, "b", 0)]
    assert index.database.revision != before
    before = index.database.revision
    assert index.update() and index.database.revision == before, "nothing is new"


def test_what_is_being_written_is_left_for_later(folder, index):
    folder.say("a", "whole")
    [file] = segments(folder.path)
    whole = file.read_bytes()
    folder.say("b", "torn")
    longer = file.read_bytes()
    for length in range(len(whole), len(longer)):
        os.truncate(file, length)
        assert index.update() and found(index) == [(1, "a", 0)], length
        file.write_bytes(longer)
        os.truncate(file, length)
    file.write_bytes(longer)
    assert index.update() and found(index, q="torn") == [(1, "b", 0)]
    assert not index.wrong


def test_a_resume_that_cuts_files_shorter_is_followed(folder, index):
    folder.say("a", "kept")
    folder.log("rollouts", {"step": 1, "prompt": "a", "rewards": [0.0, 1.0]})
    lengths = folder.lengths()
    log = (folder.path / "rollouts.jsonl").stat().st_size
    folder.say("b", "cut away", step=2)
    folder.log("rollouts", {"step": 2, "prompt": "b", "rewards": [0.0, 1.0]})
    assert index.update() and found(index, q="cut") == [(2, "b", 0)]
    folder.cut(lengths)
    os.truncate(folder.path / "rollouts.jsonl", log)
    folder.say("c", "after the resume, a longer answer than before", step=2)
    assert index.update()
    assert found(index) == [(1, "a", 0), (2, "c", 0)] and found(index, q="cut") == []
    assert [prompt for (prompt,) in index.database.rows("SELECT prompt FROM groups")] == ["a"]


def test_a_thinned_segment_is_read_again_and_others_are_not(folder, index):
    folder.say("old", "first answer", "second answer")
    folder.say("new", "third answer", step=SEGMENT)
    index.update()
    kept = index.database.one("SELECT id FROM answers WHERE prompt = 'new'")
    old = segments(folder.path)[0]
    old.unlink()
    folder.say("old", "first answer")
    assert index.update() and found(index) == [(1, "old", 0), (SEGMENT, "new", 0)]
    assert index.database.one("SELECT id FROM answers WHERE prompt = 'new'") == kept
    old.unlink()
    assert index.update() and found(index) == [(SEGMENT, "new", 0)]


def test_a_run_that_thins_its_oldest_steps_is_followed(folder, index):
    for step in (1, SEGMENT, 2 * SEGMENT):
        folder.say("a", "kept", "thinned", step=step)
    assert index.update() and len(found(index)) == 6
    size = sum(folder.lengths().values())
    Transcripts(folder.path).thin(size - 1, step=2 * SEGMENT)
    assert index.update() and len(found(index, q="thinned")) == 2 and len(found(index)) == 5
    Transcripts(folder.path).thin(0, step=2 * SEGMENT)
    assert index.update() and {step for step, _, _ in found(index)} == {2 * SEGMENT}


def test_answers_of_a_log_are_shown_until_transcripts_have_them(folder, index):
    group = {"step": 1, "prompt": "a", "rewards": [0.0, 1.0], "tokens": [1, 2], "failed": 0}
    folder.log("rollouts", {**group, "text": "1 + 1", "answers": ["log one", "log two"]})
    assert index.update() and found(index, q="log") == [(1, "a", 0), (1, "a", 1)]
    folder.say("a", "said one", "said two")
    assert index.update()
    assert found(index) == [(1, "a", 0), (1, "a", 1)] and found(index, q="log") == []
    [file] = segments(folder.path)
    file.unlink()
    assert index.update() and found(index, q="log") == [(1, "a", 0), (1, "a", 1)]
    shown = index.database.one("SELECT text FROM texts WHERE prompt = 'a'")
    assert shown == ("1 + 1",), "the prompt as the judge reads it, not the chat"


def test_it_is_kept_in_the_cache_and_never_in_the_folder(folder, cache):
    folder.say("a", "seven")
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    first = Index(folder.path)
    first.update()
    made = first.database.revision
    first.close()
    again = Index(folder.path)
    assert again.database.revision == made and found(again, q="seven") == [(1, "a", 0)]
    again.close()
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before
    assert [path.suffix for path in sorted(cache.iterdir())] == [".lock", ".sqlite"]


def test_another_folder_at_the_same_path_is_another_index(folder, tmp_path):
    folder.say("a", "seven")
    first = Index(folder.path)
    first.update()
    first.close()
    shutil.copytree(folder.path, tmp_path / "other")
    shutil.rmtree(folder.path)
    (tmp_path / "other").rename(folder.path)
    again = Index(folder.path)
    assert count(again, "answers") == 0
    again.update()
    assert found(again) == [(1, "a", 0)]
    again.close()


def test_two_at_once_do_not_share_a_file(folder, index):
    folder.say("a", "seven")
    index.update()
    other = Index(folder.path)
    assert other.update() and found(other, q="seven") == found(index, q="seven")
    other.close()


@pytest.mark.parametrize("damage", [b"", b"not a database", None])
def test_a_damaged_index_is_built_again(folder, cache, damage):
    folder.say("a", "seven", "eight")
    first = Index(folder.path)
    first.update()
    first.close()
    [file] = cache.glob("*.sqlite")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2] if damage is None else damage)
    again = Index(folder.path)
    assert again.update() and found(again, q="eight") == [(1, "a", 1)]
    again.close()


def test_damage_that_is_met_while_it_is_open_is_mended(folder, index):
    folder.say("a", "seven")
    index.update()
    with index.database.writing() as write:
        write.execute("DROP TABLE members")
    folder.say("b", "eight")
    assert index.update() and found(index, q="seven") == [(1, "a", 0)]


def test_where_there_is_no_cache_folder_it_is_in_memory(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("METIS_HOME", str(tmp_path / "file"))
    folder.say("a", "seven")
    opened = Index(folder.path)
    assert opened.update() and found(opened, q="seven") == [(1, "a", 0)]
    opened.close()


@pytest.mark.parametrize("pages", [10, 80], ids=["from the start", "while it is filled"])
def test_where_the_disk_of_the_cache_is_full_it_goes_on_in_memory(
    folder, cache, monkeypatch, pages
):
    connect = database._connect

    def connect_to_a_small_disk(place):
        connection = connect(place)
        if place != ":memory:":
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(database, "_connect", connect_to_a_small_disk)
    for step in range(200):
        folder.say(f"p{step}", f"answer {step} " + "and so on " * 50, step=step)
    opened = Index(folder.path)
    assert opened.update() and count(opened, "answers") == 200 and not opened.wrong
    folder.say("later", "more", step=200)
    assert opened.update() and found(opened, q="more") == [(200, "later", 0)]
    opened.close()
    monkeypatch.undo()
    monkeypatch.setenv("METIS_HOME", str(cache.parent))
    again = Index(folder.path)
    assert again.update() and count(again, "answers") == 201, "a disk with room has all of it"
    again.close()


def test_without_an_index_of_words_texts_are_looked_at(folder, monkeypatch):
    monkeypatch.setattr(database, "WORDS", "CREATE VIRTUAL TABLE words USING missing(text)")
    folder.say("a", "seven apples", "eight")
    opened = Index(folder.path)
    assert opened.update() and not opened.database.searchable
    assert found(opened, q="apples") == [(1, "a", 0)]
    opened.close()


@pytest.mark.parametrize("bad", ['{"step": "one"}', "[]", "{", '{"step": 1, "prompt": 3}'])
def test_a_damaged_line_is_said_and_what_precedes_it_is_shown(folder, index, bad):
    folder.log("rollouts", {"step": 1, "prompt": "a", "rewards": [1.0]})
    with (folder.path / "rollouts.jsonl").open("a") as file:
        file.write(f"{bad}\n")
    for _ in range(2):
        assert index.update() and count(index, "groups") == 1
        assert index.wrong == {"rollouts.jsonl": "rollouts.jsonl, line 2"}


def test_rows_that_no_table_takes_are_damage_too(folder, index):
    good = {"step": 1, "prompt": "a", "chosen": True}
    folder.log("judgments", good, {**good, "step": 10**30}, good)
    assert index.update() and count(index, "judgments") == 1
    assert index.wrong == {"judgments.jsonl": "judgments.jsonl, line 2"}


def test_a_damaged_segment_hides_no_other(folder, index):
    folder.say("a", "seven")
    folder.say("b", "eight", step=SEGMENT)
    first, _ = segments(folder.path)
    first.write_bytes(b"not gzip" + first.read_bytes())
    assert index.update() and found(index) == [(SEGMENT, "b", 0)]
    assert list(index.wrong) == ["transcripts/train-00000.jsonl.gz"]


def test_links_that_lead_out_are_not_read(folder, index, tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_text(json.dumps({"step": 1, "prompt": "secret", "rewards": [1.0]}) + "\n")
    (folder.path / "rollouts.jsonl").symlink_to(secret)
    folder.say("a", "seven")
    [file] = segments(folder.path)
    shutil.move(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert index.update() and count(index, "groups") == 0 and found(index) == []
    assert sorted(index.wrong) == ["rollouts.jsonl", "transcripts/train-00000.jsonl.gz"]


def test_a_gzipped_log_is_read_whole(folder, index):
    row = {"step": 1, "prompt": "a", "rewards": [1.0, 0.0]}
    with gzip.open(folder.path / "rollouts.jsonl.gz", "wt") as file:
        file.write(f"{json.dumps(row)}\n{json.dumps({**row, 'prompt': 'b'})}\n")
    for _ in range(2):
        assert index.update() and count(index, "groups") == 2


def test_a_long_gzipped_log_is_read_on_where_time_ran_out(folder, index):
    row = {"step": 1, "rewards": [1.0, 0.0]}
    lines = [json.dumps({**row, "prompt": str(number)}) for number in range(1200)]
    with gzip.open(folder.path / "rollouts.jsonl.gz", "wt") as file:
        file.writelines(f"{line}\n" for line in lines)
    assert not index.update(seconds=0), "there is more"
    while not index.update(seconds=0):
        pass
    assert count(index, "groups") == 1200


@pytest.mark.parametrize("wrong", [{"tokens": [5]}, {"messages": "x"}, {"failure": ["y"]}])
def test_a_row_of_the_wrong_type_is_damage_and_hides_no_other_file(folder, index, wrong):
    head = {"step": 1, "prompt": "a", "category": "", "messages": [], "n": 1}
    said = [{"role": "assistant", "content": "odd"}]
    row = {"rollout": 0, "messages": said, "reward": 1.0, "tokens": 5, "truncated": False}
    Transcripts(folder.path).append("train", head, [{**row, **wrong}])
    folder.say("b", "eight", step=SEGMENT)
    assert index.update() and (SEGMENT, "b", 0) in found(index)


def test_texts_outlive_the_segment_that_named_them_first(folder, index):
    for step in (1, SEGMENT):
        folder.say("a", "seven", step=step)
    assert index.update() and count(index, "texts") == 1
    segments(folder.path)[0].unlink()
    assert index.update() and count(index, "texts") == 1 and len(found(index)) == 1


def test_progress_says_how_much_is_read(folder, index):
    for step in range(40):
        folder.say(f"p{step}", "seven", step=step)
    assert not index.progress["done"] and index.progress["bytes"][0] == 0
    assert not index.update(seconds=0), "there is more"
    read, whole = index.progress["bytes"]
    assert read < whole and not index.progress["done"]
    assert index.update() and index.progress["done"]
    assert index.progress["bytes"] == [whole, whole] and index.progress["members"] == 40


STEPS = st.lists(st.sampled_from(["say", "cut", "look", "thin"]), min_size=1, max_size=12)


@given(STEPS)
def test_after_anything_it_has_what_the_folder_has(tmp_path_factory, steps):
    """Members are written, cut and thinned; whenever it looks, it has those that are there."""
    folder = Folder(tmp_path_factory.mktemp("any") / "run")
    index, there, number = Index(folder.path), [], 0
    for what in [*steps, "look"]:
        if what == "say":
            number += 1
            there.append((f"p{number}", folder.lengths()))
            folder.say(f"p{number}", f"answer {number}")
        elif what == "cut" and there:
            folder.cut(there.pop()[1])
        elif what == "thin" and there:
            [file] = segments(folder.path)
            file.unlink()
            names, there = [name for name, _ in there[1:]], []
            for name in names:
                there.append((name, folder.lengths()))
                folder.say(name, "thinned")
        elif what == "look":
            assert index.update()
            assert found(index) == sorted((1, name, 0) for name, _ in there)
    index.close()


def test_kept_by_sqlite(cache, folder, index):
    """The file is an ordinary database of SQLite."""
    index.update()
    index.close()
    [file] = cache.glob("*.sqlite")
    with sqlite3.connect(file) as opened:
        assert opened.execute("SELECT count(*) FROM metrics").fetchone() == (1,)


FILL = """
import sys
from pathlib import Path
from metis.view.browse import index
index.MEMBERS = 1
opened = index.Index(Path(sys.argv[1]))
print(opened.database.path, flush=True)
opened.update()
"""


def test_whoever_is_killed_while_filling_it_leaves_one_that_can_be_gone_on_with(folder):
    for step in range(300):
        folder.say(f"p{step}", f"answer of {step}", "another", step=step)
    members = []
    for pause in (0.05, 0.2):
        child = subprocess.Popen([sys.executable, "-c", FILL, folder.path], stdout=subprocess.PIPE)
        with child:
            child.stdout.readline()
            time.sleep(pause)
            child.kill()
        opened = Index(folder.path)
        members.append(count(opened, "members"))
        opened.close()
    assert members == sorted(members)
    opened = Index(folder.path)
    assert opened.update() and count(opened, "members") == 300
    assert found(opened, q="answer", step="7") == [(7, "p7", 0)]
    opened.close()
