"""BFCL prepared: the split, the broken composite and its repair, files that are whole."""

import json
import shutil

import pytest

import bfcl_package
from metis.cli import main
from metis.data import parquet
from metis.errors import MetisError
from metis.prepare import bfcl_sets
from metis.prepare.bfcl import PRESETS, DialogueSettings, prepare, split, understand
from metis.tasks.bfcl import wording
from metis.tasks.bfcl.document import CATEGORIES

bfcl_package.require()


@pytest.fixture(scope="module")
def rebuilt():
    return bfcl_sets.every("rebuilt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("bfcl")
    prepare(PRESETS["paper"], out, say=lambda text: None)
    return out


def number(name):
    return int(name.rpartition("_")[2])


def test_a_fifth_of_every_category_is_held_out(rebuilt):
    for kind in ("dialogue", "category"):
        heldout = split(rebuilt, DialogueSettings(split=kind))
        for part in rebuilt.values():
            assert sum(each.id in heldout for each in part) == 40


def test_variants_of_a_dialogue_stay_together_unless_the_paper_is_followed(rebuilt):
    together, apart = (
        split(rebuilt, DialogueSettings(split=kind)) for kind in ("dialogue", "category")
    )
    assert len({number(name) for name in together}) == 40
    assert len({number(name) for name in apart}) > 100
    assert split(rebuilt, DialogueSettings(seed=1)) != together


def test_the_official_composite_is_broken_and_the_rebuilt_one_is_not(rebuilt):
    broken = {each.dialogue for each in bfcl_sets.failures(bfcl_sets.official("composite"))}
    assert len(broken) == 165
    for part in rebuilt.values():
        assert list(bfcl_sets.failures(part)) == []


def test_the_rebuilt_composite_lacks_all_that_its_parts_lack(rebuilt):
    for base, composite in zip(rebuilt["base"], rebuilt["composite"], strict=True):
        acting = [turn for turn in composite.truth if turn]
        assert len(acting) == len([turn for turn in base.truth if turn])
        assert len(composite.truth) == len(composite.questions) >= len(base.questions) + 2
        [(handed, _)] = composite.handed.items()
        assert composite.questions[handed] == "" and composite.truth[handed - 1] == ()


def test_files_have_the_split_and_what_is_broken(folder):
    written = json.loads((folder / "split.json").read_text())
    rows = {
        name: [row["extra_info"]["id"] for row in parquet.rows(folder / f"{name}.parquet")]
        for name in ("train", "heldout")
    }
    for name, ids in rows.items():
        assert sorted(ids) == sorted(
            each for part in written["categories"].values() for each in part[name]
        )
    assert (len(rows["train"]), len(rows["heldout"])) == (800, 200)
    assert written["settings"] == {"composite": "official", "split": "category", "seed": 0}
    broken = [json.loads(line) for line in (folder / "broken.jsonl").read_text().splitlines()]
    assert len({row["id"] for row in broken}) == 165
    row = next(parquet.rows(folder / "heldout.parquet"))
    assert row["data_source"] == "metis/bfcl_base"
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]


def test_what_is_there_is_left_alone_and_other_settings_write_again(folder):
    before = (folder / "train.parquet").stat().st_mtime_ns
    assert not prepare(PRESETS["paper"], folder).fresh
    assert (folder / "train.parquet").stat().st_mtime_ns == before


def test_a_file_from_elsewhere_is_not_overwritten(tmp_path):
    (tmp_path / "train.parquet").write_bytes(b"mine")
    with pytest.raises(MetisError, match="not a file that was prepared here"):
        prepare(DialogueSettings(), tmp_path)
    assert (tmp_path / "train.parquet").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["split.json", "broken.jsonl"])
@pytest.mark.parametrize("mine", ["mine", "[]", '{"mine": 1}', "", "[" * 100_000])
def test_nor_is_one_beside_the_dialogues(tmp_path, name, mine):
    (tmp_path / name).write_text(mine)
    with pytest.raises(MetisError, match=f"{name}' is not a file that was prepared here"):
        prepare(DialogueSettings(), tmp_path, say=lambda text: None)
    assert (tmp_path / name).read_text() == mine
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["split.json", "broken.jsonl", "heldout.parquet"])
def test_a_file_that_was_taken_away_is_written_again(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).unlink()
    assert prepare(PRESETS["paper"], tmp_path, say=lambda text: None).fresh
    assert (tmp_path / name).is_file()


def test_other_settings_write_over_what_was_prepared_here(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    assert prepare(DialogueSettings(), tmp_path, say=lambda text: None).fresh
    assert json.loads((tmp_path / "split.json").read_text())["settings"]["split"] == "dialogue"
    assert not (tmp_path / "broken.jsonl").exists()


def test_a_function_that_does_not_exist_is_not_announced():
    for dialogue in bfcl_sets.official("composite"):
        for turn in dialogue.handed:
            said = dialogue.said(turn)
            assert (wording.ADDED in said) == ("\n- " in said), dialogue.id
            assert said.endswith(wording.AGAIN)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["split=random"], "split = 'random': use dialogue or category"),
        (["composite=mended"], "composite = 'mended': use rebuilt or official"),
        (["seed=x"], "seed = 'x': use a number"),
        (["seed="], "seed = '': use a number"),
        ([f"seed={'9' * 5_000}"], r"seed = '9{18}\.\.\.': use a number, 0 or more, of at most 18"),
        (["preset=p"], "preset = 'p': use recommended or paper"),
        (["sed=1"], "sed = '1': the settings are composite"),
    ],
)
def test_words_that_are_no_settings_are_refused(words, message):
    with pytest.raises(MetisError, match=message):
        understand(words)


def test_settings_come_after_their_preset():
    settings, package = understand(["preset=paper", "seed=3", "composite=rebuilt"])
    assert settings == DialogueSettings("rebuilt", "category", 3) and package is None


def test_the_command_ends_with_a_table(tmp_path, capsys):
    assert main(["prepare", "bfcl", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    for name in CATEGORIES:
        assert f"{name} " in said
    assert "160       40" in said and "split.json" in said
