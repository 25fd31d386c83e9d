"""Problems out of published copies: unwrapped, once each, with every answer given."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.data import problems
from metis.data.problems import PREFIX, SUFFIX, answer, difficulty, read, unwrap
from metis.errors import MetisError

TEXT = st.text(st.characters(codec="utf-8")).filter(
    lambda text: PREFIX not in text and SUFFIX not in text
)


def table(folder, rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@given(TEXT)
def test_unwrapping_gives_back_what_was_wrapped(text):
    assert unwrap(f"{PREFIX}\n\n{text}\n\n{SUFFIX}") == text.strip()
    assert unwrap(text) == text.strip()
    assert unwrap(unwrap(text)) == unwrap(text)


def test_the_wrapper_is_dapos():
    whole = (
        "Solve the following math problem step by step. The last line of your response should be "
        "of the form Answer: $Answer (without quotes) where $Answer is the answer to the problem."
        '\n\nWhat is 1?\n\nRemember to put your answer on its own line after "Answer:".'
    )
    assert unwrap(whole) == "What is 1?"


@pytest.mark.parametrize(
    ("given_answer", "solution", "expected"),
    [
        ("34", None, "34"),
        (" 034 ", None, "34"),
        ("-007", None, "-7"),
        ("+2", None, "+2"),
        ("000", None, "0"),
        (204, None, "204"),
        (204.0, None, "204"),
        (0.5, None, "0.5"),
        ("0.50", None, "0.50"),
        ("011_2", None, "011_2"),
        ("5", "\\boxed{6}", "5"),
        (None, "so \\boxed{1}, no, \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("", "\\boxed{ 07 }", "7"),
        (None, "first $\\boxed{1}$, then $\\boxed 2$.", "2"),
        (None, "first $\\boxed 1$, then $\\fbox{2}$.", "2"),
        (None, "$x = \\boxed {\\frac{1}{2}}$", "\\frac{1}{2}"),
        (None, "$\\boxed\\frac{1}{2}$", "\\frac{1}{2}"),
        (None, "\\boxed{}", ""),
        (None, "no box", ""),
        (None, None, ""),
    ],
)
def test_the_answer_is_the_one_given_or_the_one_in_the_last_box(given_answer, solution, expected):
    assert answer(given_answer, solution) == expected


@given(st.integers(), st.integers(0, 4))
def test_integers_lose_leading_zeros_and_nothing_else(number, zeros):
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    assert answer(f"{sign}{'0' * zeros}{digits}", None) == str(number)


def test_a_level_is_a_number_where_it_holds_one():
    levels = ("Level 3", 5, 2.5, "Level ?", "", None)
    assert [difficulty(level) for level in levels] == [3.0, 5.0, 2.5, None, None, None]


@given(st.lists(st.tuples(st.sampled_from(["a", "b ", "\nb", "c"]), st.integers(0, 2))))
def test_every_problem_comes_once_in_order_with_its_different_answers(tmp_path_factory, pairs):
    rows = [{"problem": text, "answer": str(number)} for text, number in pairs]
    path = table(tmp_path_factory.mktemp("rows"), [{"problem": "first", "answer": "0"}, *rows])
    found = read([path], "text")
    assert found.rows == len(rows) + 1
    expected: dict[str, dict[str, None]] = {"first": {"0": None}}
    for text, number in pairs:
        expected.setdefault(text.strip(), {})[str(number)] = None
    assert {p.text: p.answers for p in found.problems} == {k: list(v) for k, v in expected.items()}
    assert [p.text for p in found.problems] == list(expected)


def test_the_same_wording_may_count_as_one_problem(tmp_path):
    texts = [
        "What is $\\frac12$?",
        "what is \\( \\dfrac 1 2 \\)",
        "What is $-\\frac12$?",
        "$?$",
        "!",
    ]
    path = table(tmp_path, [{"problem": text, "answer": "1"} for text in texts])
    assert [p.text for p in read([path], "wording").problems] == [texts[0], *texts[2:]]
    assert [p.text for p in read([path], "text").problems] == texts


@pytest.mark.parametrize(
    "row",
    [
        {"problem": "P?", "answer": "1", "type": "T", "level": "Level 2"},
        {"Problem": "P?", "Answer": 1, "subject": "T", "level": 2},
        {"question": "P?", "solution": "\\boxed{1}", "type": "T", "level": "2"},
        {
            "prompt": [{"role": "user", "content": f"{PREFIX}\n\nP?\n\n{SUFFIX}"}],
            "reward_model": {"ground_truth": "1"},
            "extra_info": {"category": "T", "difficulty": 2.0},
        },
        {"prompt": "P?", "solution": "x", "reward_model": {"ground_truth": "1"}},
    ],
)
def test_the_layouts_of_known_copies_are_read(tmp_path, row):
    [problem] = read([table(tmp_path, [row])], "text").problems
    assert (problem.text, problem.answers) == ("P?", ["1"])
    if "level" in row or "extra_info" in row:
        assert (problem.category, problem.difficulty) == ("T", 2.0)


def test_rows_without_the_wrapper_are_counted_in_chats_only(tmp_path):
    def chat(text):
        return {"prompt": [{"content": text}], "answer": "1"}

    rows = [chat(f"{PREFIX}\n\nP?\n\n{SUFFIX}"), chat("Q?"), chat(f"{PREFIX}\n\nP?\n\n{SUFFIX}")]
    assert read([table(tmp_path, rows)], "text").unwrapped == 2
    assert read([table(tmp_path, [{"problem": "P?", "answer": "1"}])], "text").unwrapped is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"body": "P?", "answer": "1"}, ["no field for problems", "body, answer"]),
        ({"problem": "P?", "label": "1"}, ["no field for answers", "problem, label"]),
        ({"prompt": [], "answer": "1"}, ["no field for problems"]),
        ({"problem": 7, "answer": "1"}, ["problem of row 1 is 7, not a text"]),
    ],
)
def test_a_changed_schema_is_refused_in_one_line(tmp_path, row, words):
    path = table(tmp_path, [row])
    with pytest.raises(MetisError) as caught:
        read([path], "text")
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    assert all(word in message for word in words), message


def test_an_empty_file_is_called_empty(tmp_path):
    with pytest.raises(MetisError, match="is empty"):
        read([table(tmp_path, [])], "text")


def test_a_row_that_lost_its_problem_is_refused(tmp_path):
    path = table(tmp_path, [{"problem": "P?", "answer": "1"}, {"answer": "1"}])
    with pytest.raises(MetisError, match="problem of row 2 is None, not a text"):
        read([path], "text")


def test_answers_agree_with_the_boxes_of_the_solutions(published):
    for name in ("math500", "minerva", "math"):
        for row in published.raw(name):
            if "solution" in row and "answer" in row:
                assert answer(None, row["solution"]) == answer(row["answer"], None), row


def test_every_published_problem_survives_its_wrapper(published):
    for name in published.files:
        for row in published.raw(name):
            bare = row["problem"].strip()
            assert problems.unwrap(f"{PREFIX}\n\n{row['problem']}\n\n{SUFFIX}") == bare
