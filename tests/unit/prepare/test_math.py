"""`metis prepare math`: what is read, dropped and written, and that nothing is left half done.

With METIS_DATA naming a folder of the real files, the same tests run on them.
"""

import json
import os

import pyarrow
import pytest
from pyarrow import parquet

from metis.cli import main
from metis.data import table
from metis.data.math_sets import SETS
from metis.data.problems import PREFIX, SUFFIX
from metis.prepare.math import identity_of
from metis.tasks.file import File, build

REAL = "METIS_DATA" in os.environ


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def prepared(published, tmp_path_factory):
    """A folder with all sets, prepared once."""
    out = tmp_path_factory.mktemp("prepared")
    assert main(["prepare", "math", *published.words(), "--out", str(out)]) == 0
    return out


def metis(*arguments):
    return main(["prepare", "math", *map(str, arguments)])


def rows(out, name):
    return list(table.rows(out / f"{name}.parquet"))


def dropped(out, name):
    path = out / f"{name}.dropped.jsonl"
    return list(table.rows(path)) if path.exists() else []


def refused(capsys, *words):
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert line.startswith("metis: ")
    assert all(word in line for word in words), line


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_problem_is_written_or_dropped_for_a_reason(published, prepared):
    for name, (read, problems, unanswered, several, contaminated) in published.counts.items():
        about = json.loads(parquet.read_schema(prepared / f"{name}.parquet").metadata[b"metis"])
        outcome = about["outcome"]
        assert (outcome["rows"], outcome["problems"]) == (read, problems), name
        assert (outcome["unanswered"], outcome["conflicting"]) == (unanswered, several), name
        assert sum(outcome["contaminated"].values()) == contaminated, name
        kept, gone = rows(prepared, name), dropped(prepared, name)
        assert len(kept) == outcome["written"] == problems - len(gone)
        reasons = [row["reason"] for row in gone]
        assert reasons.count("no answer") == unanswered
        assert reasons.count("several answers") == several
        assert sum(" of math500:" in reason for reason in reasons) == contaminated


def test_rows_have_the_columns_that_verl_reads(published, prepared):
    for name in published.files:
        texts = {row["problem"].strip() for row in published.raw(name)}
        for index, row in enumerate(rows(prepared, name)):
            extra = row["extra_info"]
            assert extra["index"] == index and extra["split"] == SETS[name].split
            assert extra["problem"] in texts
            [message] = row["prompt"]
            assert message["role"] == "user"
            assert message["content"] == f"{extra['problem']}\n{File.instruction}"
            assert row["reward_model"]["style"] == "rule" and row["reward_model"]["ground_truth"]
            assert (row["data_source"], row["ability"]) == (f"metis/{name}", "MATH")


def test_ids_are_unique_and_fixed_by_set_and_text(published, prepared):
    every = [row["extra_info"]["id"] for name in published.files for row in rows(prepared, name)]
    assert len(set(every)) == len(every)
    for name in published.files:
        for row in rows(prepared, name):
            assert row["extra_info"]["id"] == identity_of(name, row["extra_info"]["problem"])
    assert identity_of("dapo", "What is $2+2$?") == "dapo:ed2923705314"


def test_answers_categories_and_levels_are_those_of_the_source(published, prepared):
    for name in published.files:
        raw = {row["problem"].strip(): row for row in reversed(published.raw(name))}
        for row in rows(prepared, name):
            extra, source = row["extra_info"], raw[row["extra_info"]["problem"]]
            assert extra["category"] == source.get("type", source.get("subject", ""))
            level = str(source.get("level", "")).removeprefix("Level ")
            assert extra["difficulty"] == (float(level) if level.isdigit() else None)
            given, written = (
                str(source.get("answer", "")).strip(),
                row["reward_model"]["ground_truth"],
            )
            assert written == (str(int(given)) if given.isdigit() else given) or not given


def test_benchmarks_are_whole(published, prepared):
    for name in ("aime24", "aime25", "math500", "minerva"):
        assert len(rows(prepared, name)) == len(published.raw(name))
        assert not REAL or len(rows(prepared, name)) == SETS[name].size


def test_the_published_layout_of_dapo_gives_the_same_rows(published, prepared, tmp_path):
    chats = [
        {
            "data_source": "math_dapo",
            "prompt": [{"role": "user", "content": f"{PREFIX}\n\n{row['problem']}\n\n{SUFFIX}"}],
            "reward_model": {"ground_truth": str(row["answer"]), "style": "rule"},
            "extra_info": {"index": str(number)},
        }
        for number, row in enumerate(published.raw("dapo") * 3)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(chats), tmp_path / "dapo.parquet")
    tests = [name for name, known in SETS.items() if known.split == "test"]
    assert metis(*published.words(*tests), "dapo=dapo.parquet", "--out", "out") == 0
    assert rows(tmp_path / "out", "dapo") == rows(prepared, "dapo")


def test_a_prepared_file_is_a_source_too(published, prepared, tmp_path):
    words = [f"{name}={prepared / f'{name}.parquet'}" for name in published.files]
    assert metis(*words, "contamination=keep", "--out", "out") == 0
    for name in published.files:
        assert rows(tmp_path / "out", name) == rows(prepared, name)


def test_the_papers_preset_keeps_what_can_be_scored(published, prepared, tmp_path, capsys):
    assert metis(*published.words(), "preset=paper", "--out", "out") == 0
    for name, (_, problems, unanswered, _, _) in published.counts.items():
        assert len(rows(tmp_path / "out", name)) == problems - unanswered
    several = published.counts["dapo"][3]
    assert f"dapo: {several} problems have several answers; the first one counts" in (
        capsys.readouterr().out
    )
    first = {row["problem"].strip(): row["answer"] for row in reversed(published.raw("dapo"))}
    for row in rows(tmp_path / "out", "dapo"):
        assert row["reward_model"]["ground_truth"] == first[row["extra_info"]["problem"]]


def test_the_table_says_what_was_read_dropped_and_written(published, prepared, capsys):
    assert metis(*published.words(), "--out", prepared) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:3] == ["set", "rows", "problems"]
    assert [line.split()[0] for line in printed[1:7]] == list(SETS)
    read, problems, unanswered, several, contaminated = published.counts["dapo"]
    written = problems - unanswered - several - contaminated
    numbers = (read, problems, unanswered, several, contaminated, written)
    assert printed[5].split()[:7] == ["dapo", *(f"{number:,}" for number in numbers)]
    assert f"math500 {contaminated}" in "\n".join(printed)
    assert "dapo.dropped.jsonl" in "\n".join(printed)


def test_running_again_leaves_everything_as_it_is(published, prepared, capsys):
    before = contents(prepared)
    assert metis(*published.words(), "--out", prepared) == 0
    printed = capsys.readouterr().out
    assert "reading" not in printed and printed.count("already there") == len(SETS)
    assert contents(prepared) == before


def test_other_settings_or_test_sets_prepare_anew(published, tmp_path, capsys):
    assert metis(*published.words("dapo"), "--out", "out") == 0
    assert "not compared with aime24, aime25, math500, minerva" in capsys.readouterr().out
    assert len(dropped(tmp_path / "out", "dapo")) == published.counts["dapo"][3]
    assert metis(*published.words("dapo", "math500"), "--out", "out") == 0
    printed = capsys.readouterr().out
    assert "dapo: reading" in printed and "not compared with aime24, aime25, minerva" in printed
    assert len(dropped(tmp_path / "out", "dapo")) == sum(published.counts["dapo"][2:])
    assert metis(*published.words("dapo"), "preset=paper", "--out", "out") == 0
    assert "dapo: reading" in capsys.readouterr().out and not dropped(tmp_path / "out", "dapo")
    assert metis(*published.words("math500"), "preset=paper", "--out", "out") == 0
    assert "already there" in capsys.readouterr().out


def test_wording_finds_more_repeats_than_text(published, tmp_path):
    keep = ("conflicts=first", "contamination=keep")
    assert metis(*published.words("dapo"), *keep, "--out", "text") == 0
    assert metis(*published.words("dapo"), *keep, "duplicates=wording", "--out", "wording") == 0
    text, wording = (rows(tmp_path / out, "dapo") for out in ("text", "wording"))
    identities = [[row["extra_info"]["id"] for row in found] for found in (text, wording)]
    assert set(identities[1]) < set(identities[0])


def test_the_instruction_follows_the_problem(published, tmp_path):
    assert metis(*published.words("aime24"), "instruction=Think.", "--out", "out") == 0
    for row in rows(tmp_path / "out", "aime24"):
        assert row["prompt"][0]["content"] == row["extra_info"]["problem"] + "\nThink."


def test_a_smaller_set_than_the_published_one_is_said(tmp_path, capsys):
    (tmp_path / "some.jsonl").write_text('{"problem": "1?", "answer": "1"}\n')
    assert metis("aime24=some.jsonl") == 0
    assert "aime24: 1 problems; the published set has 30" in capsys.readouterr().out
    assert rows(tmp_path / "data/math", "aime24")[0]["reward_model"]["ground_truth"] == "1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dap"], "did you mean 'dapo'?"),
        (["gsm8k"], "the sets are aime24"),
        (["conflict=drop"], "did you mean 'conflicts'?"),
        (["conflicts"], "conflicts=VALUE"),
        (["conflicts=keep"], "use drop or first"),
        (["duplicates=no"], "use text or wording"),
        (["contamination=no"], "use drop or keep"),
        (["preset=mine"], "use recommended or paper"),
        (["dapo=nowhere.jsonl"], "no such file"),
        (["dapo=org/name"], "name a file as well: dapo=org/name@REVISION:FILE"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(tmp_path, capsys, words, said):
    assert metis(*words) == 2
    refused(capsys, said)
    assert list(tmp_path.iterdir()) == []


def test_half_a_file_and_a_changed_schema_leave_nothing_behind(tmp_path, capsys):
    rows = [{"problem": f"{number}?", "answer": "1"} for number in range(200)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "half.parquet").write_bytes(whole[: len(whole) // 2])
    parquet.write_table(pyarrow.Table.from_pylist([{"text": "1?"}]), "other.parquet")
    for source, said in (("half", "is it whole?"), ("other", "its fields are text")):
        assert metis(f"dapo={source}.parquet", "--out", "out") == 2
        refused(capsys, f"{source}.parquet", said)
        assert not (tmp_path / "out").exists()


def test_a_write_that_fails_leaves_the_old_file(published, tmp_path, monkeypatch):
    assert metis(*published.words("aime24"), "--out", "out") == 0
    before = contents(tmp_path / "out")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    assert metis(*published.words("aime24"), "instruction=Other.", "--out", "out") == 2
    assert contents(tmp_path / "out") == before


def test_a_file_from_elsewhere_is_not_overwritten(published, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    theirs = tmp_path / "out/aime24.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([{"a": 1}]), theirs)
    for content in (theirs.read_bytes(), b"half"):
        theirs.write_bytes(content)
        assert metis(*published.words("aime24"), "--out", "out") == 2
        refused(capsys, "not a file that was prepared here")
        assert theirs.read_bytes() == content


def test_the_help_names_every_set_and_setting(capsys):
    with pytest.raises(SystemExit):
        metis("--help")
    printed = capsys.readouterr().out
    assert all(name in printed for name in SETS)
    for setting in ("duplicates=", "conflicts=", "contamination=", "preset=", "instruction="):
        assert setting in printed


def test_the_file_task_reads_a_prepared_set(published, prepared):
    expected = rows(prepared, "math500")
    settings = File(
        path=str(prepared / "math500.parquet"),
        problem="extra_info.problem",
        answer="reward_model.ground_truth",
        category="extra_info.category",
        heldout=1,
    )
    task = build(settings, seed=0)
    prompts = {prompt.text: prompt for prompt in (*task.training(), *task.heldout())}
    assert len(prompts) == len(expected)
    for row in expected:
        prompt = prompts[row["extra_info"]["problem"]]
        assert prompt.category == row["extra_info"]["category"]
        episode = task.episode(prompt)
        assert episode.chat == row["prompt"]
        episode.reply(f"\\boxed{{{row['reward_model']['ground_truth']}}}")
        assert episode.reward() == 1.0
