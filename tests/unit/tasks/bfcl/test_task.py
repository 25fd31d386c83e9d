"""The task from prepared files: split, categories, and what is wrong with a file."""

import pytest

import bfcl_package
from metis.errors import MetisError
from metis.prepare.bfcl import Settings, prepare
from metis.tasks.bfcl.task import Bfcl, build

bfcl_package.require()
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("bfcl")
    prepare(Settings(), out, say=lambda text: None)
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
        ({"path": "nowhere.parquet"}, "`metis prepare bfcl` makes it"),
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
