"""The math task: prepared and plain files, the wrapper, splits, rewards, and clear refusals."""

import gzip
import json

import pyarrow
import pytest
from pyarrow import parquet

from metis import MetisError
from metis.config import load_config, resolve
from metis.data.wording import words
from metis.tasks.math import INSTRUCTION, Math, build, read_problems, wrap


def prepared(n, **about):
    problem = f"What is ${n}+{n}$?"
    return {
        "data_source": "made",
        "prompt": [
            {"role": "system", "content": "Think."},
            {"role": "user", "content": f"{problem} Box it."},
        ],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(2 * n)},
        "extra_info": {"id": f"made:{n}", "problem": problem, "index": n, **about},
    }


def plain(n, **about):
    return {"id": n, "problem": f"What is ${n}+{n}$?", "answer": str(2 * n), **about}


def write(path, rows):
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return str(path)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return str(path)


def earn(task, prompt, text):
    episode = task.episode(prompt)
    assert episode.reply(text) is None
    return episode.reward()


def test_a_prepared_file_is_asked_as_it_was_prepared(tmp_path):
    rows = [prepared(n, category="sums", difficulty=n % 5) for n in range(10)]
    path = write(tmp_path / "made.parquet", rows)
    task = build(Math(path, heldout=3, verify=False), seed=0)
    assert (len(task.training()), len(task.heldout())) == (7, 3)
    prompt = next(p for p in [*task.training(), *task.heldout()] if p.id == "made:7")
    assert (prompt.text, prompt.category, prompt.difficulty) == ("What is $7+7$?", "sums", 2.0)
    chat = task.episode(prompt).chat
    assert [m["content"] for m in chat] == ["Think.", "What is $7+7$? Box it."]
    assert earn(task, prompt, "It is \\boxed{14}.") == 1.0
    assert earn(task, prompt, "It is \\boxed{15}, not 14.") == 0.0
    assert earn(task, prompt, "It is 14.") == 0.0
    own = build(Math(path, heldout=3, instruction="Answer in a box.", verify=False), seed=0)
    assert own.episode(prompt).chat[0]["content"] == "What is $7+7$?\nAnswer in a box."


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.parquet"])
def test_a_plain_file_is_asked_with_the_instruction(tmp_path, name):
    rows = [plain(n, type="Algebra", level=f"Level {n % 5 + 1}") for n in range(8)]
    path = write(tmp_path / name, [*rows, plain(0) | {"id": 98}, plain(9) | {"answer": " "}])
    task = build(Math(path, heldout=2, category="type", difficulty="level", verify=False), seed=1)
    everything = {p.id: p for p in [*task.training(), *task.heldout()]}
    assert set(everything) == {f"rows:{n}" for n in range(8)}, (
        "not the repeated, nor the unanswered"
    )
    assert everything["rows:3"].difficulty == 4.0 and everything["rows:3"].category == "Algebra"
    assert task.episode(everything["rows:3"]).chat == wrap("What is $3+3$?")
    assert wrap("p")[0]["content"] == f"p\n{INSTRUCTION}" and "\\boxed{}" in INSTRUCTION


def test_the_seed_fixes_the_split(tmp_path):
    path = write(tmp_path / "rows.jsonl", [plain(n) for n in range(30)])
    one, same, other = (build(Math(path, heldout=9, verify=False), seed) for seed in (1, 1, 2))
    assert one.heldout() == same.heldout() != other.heldout()
    assert not set(one.heldout()) & set(one.training())


def test_a_separate_file_to_test_on(tmp_path):
    train = write(tmp_path / "train.parquet", [prepared(n) for n in range(6)])
    test = write(tmp_path / "test.parquet", [prepared(n) for n in range(5, 9)])
    task = build(Math(train, heldout_path=test, heldout=0, verify=False), seed=0)
    assert {p.id for p in task.heldout()} == {f"made:{n}" for n in range(5, 9)}
    assert {p.id for p in task.training()} == {f"made:{n}" for n in range(5)}
    few = build(Math(train, heldout_path=test, heldout=2, verify=False), seed=0)
    assert len(few.heldout()) == 2


def test_files_are_compared_by_their_texts(tmp_path):
    for name in ("train", "test"):
        (tmp_path / name).mkdir()
    rows = [{"problem": f"Train {n}?", "answer": "1"} for n in range(9)]
    train = write(tmp_path / "train/data.jsonl", rows)
    test = [{"problem": f"Test {n}?", "answer": "2"} for n in range(4)]
    test = write(tmp_path / "test/data.jsonl", [*test, {"problem": "train $8$", "answer": "1"}])
    task = build(Math(train, heldout_path=test, heldout=0, verify=False), seed=0)
    assert {p.text for p in task.training()} == {f"Train {n}?" for n in range(8)}
    assert len(task.heldout()) == 5
    prompts = [*task.training(), *task.heldout()]
    assert len({p.id for p in prompts}) == 13
    assert [earn(task, p, "\\boxed{2}") for p in prompts] == [
        float(p.text.startswith("Test")) for p in prompts
    ]


def test_another_setting_of_a_held_out_problem_is_not_trained_on(tmp_path):
    texts = [text for n in range(9) for text in (f"What is ${n}+1$?", f"what is {n} + 1")]
    path = write(tmp_path / "rows.jsonl", [{"problem": text, "answer": "1"} for text in texts])
    task = build(Math(path, heldout=6, verify=False), seed=0)
    tested = {words(p.text) for p in task.heldout()}
    assert not tested & {words(p.text) for p in task.training()}


def test_rows_without_a_problem_or_an_answer_are_left_out(tmp_path):
    holes = [{"problem": "p", "answer": None}, {"problem": None, "answer": "3"}]
    path = write(tmp_path / "rows.jsonl", [*holes, *(plain(n) | {"id": None} for n in range(3))])
    found = read_problems(Math(path), path, "task.path")
    assert [p.prompt.id for p in found] == ["rows:3", "rows:4", "rows:5"]
    rows = [prepared(n) for n in range(4)]
    rows[0]["reward_model"]["ground_truth"] = None
    rows[1]["extra_info"]["problem"] = None
    path = write(tmp_path / "rows.parquet", rows)
    found = read_problems(Math(path), path, "task.path")
    assert [p.prompt.id for p in found] == ["made:2", "made:3"]


def test_the_instruction_of_a_prepared_file_is_known(tmp_path):
    def instruction(*said):
        rows = [prepared(n) for n in range(6)]
        for n, row in enumerate(rows):
            problem = row["extra_info"]["problem"]
            content = f"{problem}\n{said[n % len(said)]}"
            row["prompt"] = [{"role": "user", "content": content}]
        path = write(tmp_path / "made.parquet", rows)
        overrides = ["task=math", f"task.path={path}", "task.verify=false", "task.heldout=2"]
        config = load_config(None, overrides)
        again = resolve({k: v for k, v in config.resolved.items() if k != "schema"})
        assert again.resolved == config.resolved
        prompts = config.task.training()
        asked, same = (
            [task.episode(p).chat for p in prompts] for task in (config.task, again.task)
        )
        assert asked == same
        return config.resolved["task"]["instruction"]

    assert instruction("Box it.") == "Box it."
    assert instruction(INSTRUCTION) == instruction("Box it.", "Frame it.") == ""


def test_the_second_opinion_is_a_knob(tmp_path):
    rows = [plain(n) | {"answer": "2\\sqrt{3}"} for n in range(2)]
    path = write(tmp_path / "rows.jsonl", rows)
    exact = build(Math(path, heldout=1, verify=False), seed=0)
    asked = build(Math(path, heldout=1), seed=0)
    assert earn(exact, exact.training()[0], "\\boxed{\\sqrt{12}}") == 0.0
    assert earn(asked, asked.training()[0], "\\boxed{\\sqrt{12}}") == 1.0
    asked.verifier.close()


@pytest.mark.parametrize(
    ("rows", "settings", "words"),
    [
        (None, [], ["task.path", "no such file"]),
        ([], [], ["task.path", "is empty"]),
        ([{"problem": "p", "answer": ""}], [], ["0 problems are left to train on"]),
        ([plain(n) for n in range(3)], ["task.heldout=3"], ["task.heldout = 3", "0 problems"]),
        ([plain(n) for n in range(3)], ["task.heldout=0"], ["task.heldout = 0", "at least 1"]),
        ([{"question": "q"}], [], ["row 1", "no field 'problem', only question", "task.problem"]),
        ([plain(1), plain(1) | {"problem": "p"}], [], ["row 2", "a second 'rows:1'"]),
        ([{"reward_model": {}}], [], ["row 1", "metis prepare math"]),
        ([prepared(1) | {"prompt": "text"}], [], ["row 1", "metis prepare math"]),
        ([[1]], [], ["task.path", "line 1, is no JSON object"]),
        ([plain(1)], ["task.verify_limit=0"], ["task.verify_limit = 0", "above 0"]),
        (
            [plain(1)],
            ["task.heldout_path=none.jsonl"],
            ["task.heldout_path", "`metis prepare"],
        ),
        ([plain(1)], ["task.verfy=true"], ["did you mean 'task.verify'?"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, rows, settings, words):
    path = tmp_path / "rows.jsonl"
    if rows is not None:
        write(path, rows)
    with pytest.raises(MetisError) as caught:
        load_config(None, ["task=math", f"task.path={path}", *settings])
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.parquet"])
def test_half_a_file_is_refused_in_one_line(tmp_path, name):
    path = tmp_path / name
    write(path, [plain(n) for n in range(50)])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(MetisError, match=rf"task\.path = .*{name}") as caught:
        build(Math(str(path), verify=False), seed=0)
    assert "\n" not in str(caught.value)


def test_a_run_on_the_math_task_resolves_and_repeats(tmp_path):
    path = write(tmp_path / "rows.jsonl", [plain(n) for n in range(5)])
    config = load_config(
        None, ["task=math", f"task.path={path}", "task.heldout=2", "task.verify=false"]
    )
    assert config.resolved["task"]["name"] == "math"
    assert config.resolved["task"]["verify"] is False
