"""Python on pages of the docs that needs no model."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import metis
from metis.core import Engine, Group, Progress, Prompt
from metis.core.needs import Needs
from metis.core.requests import Embed
from metis.errors import MetisError
from metis.tasks.rewards import Asked, OwnReward

ROOT = Path(__file__).parents[2]


def blocks(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    return [part.split("\n```")[0] for part in text.split("```python\n")[1:]]


def test_rewards_of_other_trainers_are_called_as_the_page_says(tmp_path):
    [both] = [block for block in blocks("own-reward.md") if "solution_str" in block]
    asked = Asked([{"role": "user", "content": "1 + 1"}], {"problem": "1 + 1", "answer": 2}, 2, "2")
    for name, code in zip(("trl", "verl"), both.split("\n\n\n"), strict=True):
        (tmp_path / f"{name}.py").write_text(code)
        reward = OwnReward(f"{tmp_path / name}.py:score")
        right, wrong = (reward(f"it is {number}", asked) for number in (2, 3))
        scores = [each["score"] if isinstance(each, dict) else each for each in (right, wrong)]
        assert scores == [1.0, 0.0]


def test_an_engine_of_one_s_own_drives_a_curriculum():
    [code] = blocks("engines.md")
    defined, call = code.split("\n\n\n")
    names = {"Engine": Engine, "metis": metis, "Progress": Progress, "step": 1}
    exec(defined, names)

    class Rolls(names["Mine"]):
        def rollout(self, prompts, n):
            return [Group(prompt, (0.0, 1.0)[:n]) for prompt in prompts]

    names["pool"] = metis.Pool([Prompt(str(i), str(i)) for i in range(8)])
    names["curriculum"] = metis.curriculum("uniform", batch=4, group=2)
    exec(call, names | {"Mine": Rolls}, found := {})
    assert len(found["batch"].groups) == 4


def test_needs_and_refusals_are_written_as_the_page_says():
    _, needs, refusal = blocks("adding-a-curriculum.md")
    exec(needs, names := {"Needs": Needs, "Embed": Embed})
    assert names["needs"].requests == {Embed}

    class Mine:
        hope = 2.0

    with pytest.raises(MetisError, match=r"curriculum\.hope.*use a share, 0 to 1"):
        exec(refusal, {"self": Mine()})


CALLS = [
    call
    for block in blocks("api.md")
    if re.match(r"\w+ = metis\.|metis\.", block)
    for call in ast.walk(ast.parse(block))
    if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("metis.")
]


@pytest.mark.parametrize("call", CALLS, ids=ast.unparse)
def test_a_call_of_the_reference_has_arguments_that_exist(call):
    function = getattr(metis, ast.unparse(call.func).removeprefix("metis."))
    values = {each.arg: each.value for each in call.keywords}
    inspect.signature(function).bind(*call.args, **values)


def scripts():
    """Pages and the lines of their code blocks that run a Python file of this repository."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("evidence/*.md")]
    for page in pages:
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text("utf-8"), re.S | re.M):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                if called := re.match(r"\s*python ([\w/]+\.py)(.*)", line):
                    yield page.name, *called.groups()


@pytest.mark.parametrize(("page", "file", "words"), sorted(set(scripts())))
def test_a_script_that_a_page_runs_exists_with_its_options(page, file, words):
    text = (ROOT / file).read_text("utf-8")
    for option in re.findall(r" (--[\w-]+)", words.partition(" #")[0]):
        assert f'"{option}"' in text, f"{page}: {file} has no {option}"
