"""Transcripts: what is appended is read back, whatever is said and wherever a file ends."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.errors import Damaged
from metis.run.transcripts import Transcripts, file_name, members, packed, read, segments

HOSTILE = [
    "<script>alert(1)</script></script><!--",
    "\x1b[31mred\x1b[0m\x07\r\n\x00",
    "\u202eevil\u2066\u2029\u2028\x85",
    "\ud800 alone",
    "\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "x" * 1_000_000,
    '{"schema": 1}\n{"rollout": 0}\n',
]


def group(step=0, prompt="a", said=("four",)):
    rows = [
        {"rollout": place, "messages": [{"role": "assistant", "content": text}]}
        for place, text in enumerate(said)
    ]
    return {"step": step, "prompt": prompt, "n": len(rows)}, rows


def write(folder, kind, *groups):
    transcripts = Transcripts(folder)
    for head, rows in groups:
        transcripts.append(kind, head, rows)
    return transcripts


def contents(folder, kind=None):
    return [(member.head["prompt"], member.rows) for member in members(folder, kind)]


def stored(folder):
    return {file.name: file.read_bytes() for file in segments(folder)}


texts = st.text(st.characters(), max_size=80)
groups = st.lists(st.tuples(st.integers(0, 120), texts, st.lists(texts, max_size=3)), max_size=6)


@settings(max_examples=50)
@given(groups=groups)
def test_what_is_written_is_read_in_order_and_at_its_place(tmp_path_factory, groups):
    folder = tmp_path_factory.mktemp("run")
    written = [group(*each) for each in sorted(groups, key=lambda each: each[0])]
    write(folder, "train", *written)
    found = list(members(folder))
    assert [(member.head, member.rows) for member in found] == [
        ({"schema": 1, **head}, rows) for head, rows in written
    ]
    assert [read(folder, member.place) for member in found] == found


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_is_said_is_read_as_it_was(tmp_path, text):
    head, rows = group(prompt=text, said=[text, text])
    write(tmp_path, "train", (head, rows), group())
    assert contents(tmp_path) == [(text, rows), ("a", group()[1])]


def test_a_file_has_fifty_steps_of_one_kind(tmp_path):
    write(tmp_path, "train", *(group(step, str(step)) for step in (0, 49, 50, 149, 123_456)))
    write(tmp_path, "eval", group(50, "held out"))
    assert [file.name for file in segments(tmp_path)] == [
        *("train-00000.jsonl.gz", "train-00050.jsonl.gz", "train-00100.jsonl.gz"),
        *("train-123450.jsonl.gz", "eval-00050.jsonl.gz"),
    ]
    assert [prompt for prompt, _ in contents(tmp_path, "eval")] == ["held out"]
    assert len(contents(tmp_path)) == 6


def test_cut_at_any_byte_all_earlier_groups_are_read(tmp_path):
    whole = [packed(*group(prompt=name, said=["said"] * 2)) for name in "abc"]
    write(tmp_path, "train", group())
    file = segments(tmp_path)[0]
    for length in range(len(b"".join(whole)) + 1):
        file.write_bytes(b"".join(whole)[:length])
        ends = [sum(map(len, whole[: place + 1])) for place in range(len(whole))]
        assert len(contents(tmp_path)) == sum(end <= length for end in ends)


def test_reading_goes_on_where_it_ended(tmp_path):
    write(tmp_path, "train", group(prompt="a"), group(prompt="b"))
    ends = {file.name: file.stat().st_size for file in segments(tmp_path)}
    write(tmp_path, "train", group(prompt="c"), group(50, "d"))
    assert [member.head["prompt"] for member in members(tmp_path, after=ends)] == ["c", "d"]


@settings(max_examples=30)
@given(
    steps=st.lists(st.integers(0, 120), max_size=8), last=st.integers(0, 120), torn=st.booleans()
)
def test_cut_at_a_step_the_files_are_as_they_were_then(tmp_path_factory, steps, last, torn):
    folder, then = (tmp_path_factory.mktemp("run") for _ in range(2))
    for step in sorted(steps):
        for where in (folder, then) if step <= last else (folder,):
            write(where, "train", group(step))
            write(where, "eval", group(step, said=["held out"]))
    transcripts = Transcripts(folder)
    if torn:
        write(folder, "train", group(121))
        later = folder / "transcripts" / file_name("train", 121)
        later.write_bytes(later.read_bytes()[:-3])
    transcripts.cut(last)
    assert stored(folder) == stored(then)
    transcripts.cut(-1)
    assert stored(folder) == {}


def test_one_kind_may_be_cut(tmp_path):
    for kind in ("train", "eval"):
        write(tmp_path, kind, group(1), group(2, "b"))
    Transcripts(tmp_path).cut(1, "eval")
    assert [prompt for prompt, _ in contents(tmp_path)] == ["a", "b", "a"]


def test_a_cut_removes_what_is_torn_or_damaged(tmp_path):
    transcripts = write(tmp_path, "train", group(1, "a"), group(2, "b"))
    file = segments(tmp_path)[0]
    whole = file.read_bytes()
    for tail in (packed(*group(3))[:-1], bytes(100), b"not gzip"):
        file.write_bytes(whole + tail)
        transcripts.cut(2)
        assert file.read_bytes() == whole


def test_only_the_first_groups_of_known_prompts_are_kept(tmp_path):
    transcripts = write(tmp_path, "eval", *(group(0, name) for name in "abca"))
    transcripts.keep("eval", lambda head: head["prompt"] in "ab")
    assert [prompt for prompt, _ in contents(tmp_path)] == ["a", "b"]
    transcripts.keep("eval", lambda head: False)
    assert stored(tmp_path) == {}


def test_a_folder_without_transcripts_has_none(tmp_path):
    transcripts = Transcripts(tmp_path)
    transcripts.cut(0)
    transcripts.sync()
    assert contents(tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_other_files_are_left_alone(tmp_path):
    transcripts = write(tmp_path, "train", group())
    other = tmp_path / "transcripts" / "mine.jsonl.gz"
    other.write_bytes(b"mine")
    transcripts.cut(-1)
    assert contents(tmp_path) == [] and other.read_bytes() == b"mine"


@pytest.mark.parametrize("content", [b"not gzip", packed({"step": 0}, [])[:-8] + bytes(8)])
def test_a_damaged_file_is_named_after_the_groups_before_it(tmp_path, content):
    write(tmp_path, "train", group(prompt="a"))
    file = segments(tmp_path)[0]
    end = file.stat().st_size
    file.write_bytes(file.read_bytes() + content)
    found = members(tmp_path)
    assert next(found).head["prompt"] == "a"
    with pytest.raises(Damaged, match=rf"train-00000.jsonl.gz, byte {end}, is damaged"):
        next(found)


@pytest.mark.parametrize("line", [b"3", b"{", b"null", b""])
def test_a_member_that_is_no_group_is_damaged(tmp_path, line):
    write(tmp_path, "train", group())
    segments(tmp_path)[0].write_bytes(gzip.compress(line))
    with pytest.raises(Damaged):
        list(members(tmp_path))


def test_equal_groups_are_equal_bytes():
    assert packed(*group()) == packed(*group())
    assert file_name("eval", 199) == "eval-00150.jsonl.gz"


def test_over_the_limit_the_oldest_keep_one_rollout_per_group_then_none(tmp_path):
    text = "".join(map(str, range(2000)))
    transcripts = write(
        tmp_path, "train", *(group(step, said=[text, text[::-1]]) for step in (1, 60, 110))
    )
    write(tmp_path, "judge", group(1))
    before = stored(tmp_path)
    size = sum(map(len, before.values()))
    assert transcripts.thin(size, 110) == (0, 0) and stored(tmp_path) == before
    assert transcripts.thin(size - 1, 110) == (49, 0)
    after = stored(tmp_path)
    kept = [(member.head["n"], len(member.rows)) for member in members(tmp_path, "train")]
    assert kept == [(2, 1), (2, 2), (2, 2)]
    assert after["train-00050.jsonl.gz"] == before["train-00050.jsonl.gz"]
    assert transcripts.thin(len(before["train-00100.jsonl.gz"]), 110) == (99, 99)
    assert stored(tmp_path) == {"train-00100.jsonl.gz": before["train-00100.jsonl.gz"]}
    assert transcripts.thin(0, 149) == (0, 0), "what is being written is left alone"


def test_thinning_is_the_same_in_one_go_or_in_several(tmp_path):
    text = "".join(map(str, range(2000)))
    groups = [group(step, said=[text, text[::-1]]) for step in (1, 60, 110, 170)]
    limit = len(packed(*groups[0])) * 3
    apart, together = tmp_path / "apart", tmp_path / "together"
    for folder, stops in ((apart, (60, 110, 170)), (together, (170,))):
        folder.mkdir()
        for each in groups:
            write(folder, "train", each)
            if each[0]["step"] in stops:
                Transcripts(folder).thin(limit, each[0]["step"])
    assert stored(apart) == stored(together)
    assert [len(member.rows) for member in members(apart)] == [1, 1, 2, 2]
