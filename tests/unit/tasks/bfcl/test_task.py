"""The task from prepared files: split, categories, and what is wrong with a file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bfcl_package
from metis.errors import MetisError
from metis.prepare import bfcl_sets
from metis.prepare.bfcl import DialogueSettings, prepare
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.document import Malformed
from metis.tasks.bfcl.task import Bfcl, build

bfcl_package.require()
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("bfcl")
    prepare(DialogueSettings(), out, say=lambda text: None)
    return out


def settings(folder, **more):
    paths = {"path": f"{folder}/train.parquet", "heldout_path": f"{folder}/heldout.parquet"}
    return Bfcl(**{**paths, **more})


def test_prompts_are_those_of_the_split(folder):
    task = build(settings(folder), seed=0)
    assert (len(task.training()), len(task.heldout())) == (800, 200)
    assert not {p.id for p in task.training()} & {p.id for p in task.heldout()}
    assert task.rewards == "continuous"
    assert task.episode(task.heldout()[0]).chat[0]["role"] == "system"


def test_the_seed_fixes_the_order_and_the_heldout_draw(folder):
    first, second, other = (
        build(settings(folder, heldout=10), seed=seed).heldout() for seed in (0, 0, 1)
    )
    assert first == second != other and len(first) == 10


def test_categories_can_be_chosen(folder):
    task = build(settings(folder, categories=("base", "composite")), seed=0)
    assert {prompt.category for prompt in task.training()} == {"base", "composite"}
    assert len(task.training()) == 320


def test_heldout_dialogues_may_be_drawn_from_one_file(folder):
    task = build(settings(folder, heldout_path="", heldout=50), seed=0)
    assert (len(task.training()), len(task.heldout())) == (750, 50)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"path": "a/train.parquet"}, "`metis prepare bfcl --out a` makes it"),
        ({"categories": ("bass",)}, "task.categories = 'bass': use some of base"),
        ({"steps": 0}, "task.steps = 0: use at least 1"),
        ({"heldout_path": "", "heldout": 800}, "0 dialogues are left to train on"),
    ],
)
def test_what_cannot_be_is_refused(folder, more, message):
    with pytest.raises(MetisError, match=message):
        build(settings(folder, **more), seed=0)


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"problem": "1 + 1", "answer": "2"}\n')
    with pytest.raises(MetisError, match="row 1: not as `metis prepare bfcl` writes it"):
        build(Bfcl(path=str(path)), seed=0)


def test_heldout_dialogues_that_are_trained_on_in_another_category_are_counted(folder, tmp_path):
    prepare(DialogueSettings(split="category"), tmp_path, say=lambda text: None)
    apart, together = build(settings(tmp_path), seed=0), build(settings(folder), seed=0)
    trained, tested = (
        [prompt.id.rpartition("_")[2] for prompt in part()]
        for part in (apart.training, apart.heldout)
    )
    both = sum(number in trained for number in tested)
    assert both > 100 and together.notices == []
    assert apart.notices[0].startswith(f"{both} of the 200 held-out dialogues are trained on")


GOOD = {
    "id": "multi_turn_base_0",
    "category": "base",
    "apis": ["GorillaFileSystem"],
    "questions": ["Look.", "Again."],
    "truth": [["ls()"], []],
    "scenario": {"GorillaFileSystem": {}},
    "handed": {"1": ["ls"]},
}

WRONG = {
    'apis = \\["Nope"\\] is not a list of some of Gorilla': {"apis": ["Nope"]},
    "apis = \\[\\]": {"apis": []},
    "questions = \\[\\] is not a list of texts": {"questions": [], "truth": []},
    "questions = \\[null": {"questions": [None, None]},
    "questions = \\[5": {"questions": [5, 5]},
    "questions = ": {"questions": ["\ud800", ""]},
    "2 questions, but the truth of 1": {"truth": [["ls()"]]},
    "2 questions, but the truth of 3": {"truth": [[], [], []]},
    'truth = \\["ls': {"truth": ["ls()", "ls()"]},
    "truth = \\[\\[1": {"truth": [[1], [1]]},
    'category = "foo" is not one of base': {"category": "foo"},
    'category = \\["base': {"category": ["base"]},
    "id = 7 is not text": {"id": 7},
    "scenario = \\[\\] is not an object": {"scenario": []},
    "scenario: IndexError when": {"scenario": {"GorillaFileSystem": {"root": {}}}},
    "handed = \\[\\]": {"handed": []},
    'handed = ."x': {"handed": {"x": ["ls"]}},
    'handed = ."1": "ls': {"handed": {"1": "ls"}},
    "handed over in turn 99 of 2": {"handed": {"99": ["ls"]}},
}


@pytest.mark.parametrize(("message", "change"), WRONG.items())
def test_a_dialogue_that_is_not_one_is_named_by_file_and_row(tmp_path, message, change):
    refused(tmp_path, json.dumps({**GOOD, **change}), message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "no JSON: maximum recursion"),
        (f'{{"id": {"9" * 5000}}}', "no JSON: Exceeds the limit"),
        ("[1]", "no JSON object"),
        (json.dumps({**GOOD, "id": None})[:40], "no JSON: "),
        ("{}", "id is missing"),
        (7, "no JSON: "),
    ],
    ids=["deep", "a huge number", "a list", "torn", "empty", "a number"],
)
def test_a_row_that_is_no_dialogue_is_named(tmp_path, text, message):
    refused(tmp_path, text, message)


def refused(tmp_path, text, message):
    path = tmp_path / "rows.jsonl"
    rows = [json.dumps(GOOD), text]
    path.write_text(
        "".join(f"{json.dumps({'reward_model': {'ground_truth': row}})}\n" for row in rows)
    )
    with pytest.raises(MetisError, match=message) as caught:
        build(Bfcl(path=str(path)), seed=0)
    said = str(caught.value)
    assert said.startswith(f"task.path = {str(path)!r}, row 2: ") and "\n" not in said
    assert len(said) < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(GOOD)), JSON)
def test_any_part_of_any_kind_is_a_dialogue_or_malformed(name, part):
    try:
        dialogue = Dialogue.read(json.dumps({**GOOD, name: part}))
    except Malformed as error:
        assert str(error)
    else:
        assert dialogue.chat and dialogue.prompt.id


@pytest.mark.parametrize("composite", ["rebuilt", "official"])
def test_every_dialogue_of_the_package_is_read(composite):
    for part in bfcl_sets.every(composite).values():
        for dialogue in part:
            assert Dialogue.read(dialogue.written) == dialogue
