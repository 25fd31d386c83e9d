"""Commands that make a report again, and no path of the machine in them."""

import pytest

from metis.report.reproduce import command, portable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/me/data/sums.jsonl", "…/sums.jsonl"),
        ("task.path=/home/me/sums.jsonl", "task.path=…/sums.jsonl"),
        ("/srv/my_task.py:Class", "…/my_task.py:Class"),
        ("~/models/tiny", "…/tiny"),
        ("C:\\Users\\me\\tiny", "…/tiny"),
        ("recipes/math/tiny.toml", "recipes/math/tiny.toml"),
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("https://host/a/b", "https://host/a/b"),
        ("as $\\frac12 \\cdot\\alpha$", "as $\\frac12 \\cdot\\alpha$"),
        (
            "\\boxed{} and/or /no_think",
            "\\boxed{} and/or /no_think",
        ),
    ],
)
def test_of_an_absolute_path_the_name_is_left(text, shown):
    assert portable(text) == shown
    assert portable({"a": [text, 1, None]}) == {"a": [shown, 1, None]}


def test_a_command_can_be_pasted():
    words = ["train", "/home/me/r.toml", "task.instruction=one number"]
    assert command(*words) == "metis train …/r.toml 'task.instruction=one number'"
