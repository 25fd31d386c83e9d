"""A task of one's own by its place: its knobs, and what is refused in one line."""

import json
import sys

import pytest

from metis import MetisError
from metis.config import load_config, resolve

OWN = '''
from dataclasses import dataclass, field
from metis import Prompt
from metis.tasks.base import SingleTurn


@dataclass
class Echo:
    """Say it again."""

    words: tuple[str, ...] = ("a", "b", "c")
    seed: int = 0
    settings: dict = field(init=False, default_factory=dict)
    rewards = "binary"

    def training(self):
        return [Prompt(f"echo:{word}", word) for word in self.words[1:]]

    def heldout(self):
        return [Prompt(f"echo:{word}", word) for word in self.words[:1]]

    def episode(self, prompt):
        chat = [{"role": "user", "content": f"Say {prompt.text}"}]
        return SingleTurn(chat, lambda reply: float(prompt.text in reply))


class Plain:
    chat: "Chat"

    def __init__(self):
        echo = Echo(("x", "y"))
        self.rewards, self.training, self.heldout = "binary", echo.training, echo.heldout
        self.episode = echo.episode

    def training(self): ...
    def heldout(self): ...
    def episode(self, prompt): ...


class Silent(Echo):
    rewards = None


class Endless(Echo):
    def training(self):
        return 3


class Untested(Echo):
    def heldout(self):
        return []


class Twice(Echo):
    def heldout(self):
        return self.training()


class Raising(Echo):
    def training(self):
        return 1 / 0


class Mute(Echo):
    def episode(self, prompt):
        return object()


class Odd(Echo):
    def episode(self, prompt):
        return self.nothing


@dataclass
class Strange(Echo):
    where: sys = None


@dataclass
class Unread(Echo):
    chat: "Chat" = None


class Half:
    def training(self): ...
    def heldout(self): ...


number = 3
'''.replace(
    "from metis import Prompt",
    "import sys\nfrom typing import TYPE_CHECKING\nfrom metis import Prompt\n"
    "if TYPE_CHECKING:\n    from metis.core import Chat",
)


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "echo.py").write_text(OWN)


def test_its_fields_are_knobs_and_it_has_the_run_s_seed(own):
    config = load_config(None, ["task=echo.py:Echo", 'task.words=["p","q"]', "seed=5"])
    assert config.resolved["task"] == {"name": "echo.py:Echo", "words": ["p", "q"]}
    assert (config.task.words, config.task.seed, config.task.settings) == (("p", "q"), 5, {})
    assert load_config(None, ["task=echo.py:Echo", "task.seed=7", "seed=5"]).task.seed == 7
    again = resolve({key: value for key, value in config.resolved.items() if key != "schema"})
    assert again.resolved == config.resolved


@pytest.mark.parametrize(("given", "seed"), [([], 2), (["data_seed=3"], 3), (["task.seed=7"], 7)])
def test_the_seed_of_a_run_s_recipe_is_followed_unless_it_was_given(own, tmp_path, given, seed):
    config = load_config(None, ["task=echo.py:Echo", "seed=1", *given])
    (tmp_path / "config.json").write_text(json.dumps(config.resolved))
    assert load_config(tmp_path / "config.json", ["seed=2"]).task.seed == seed


def test_a_class_without_fields_has_no_knobs(own):
    config = load_config(None, ["task=echo.py:Plain"])
    assert [prompt.text for prompt in config.task.training()] == ["y"]
    assert config.resolved["task"] == {"name": "echo.py:Plain"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task.word=1"], "unknown key 'task.word': did you mean 'task.words'?"),
        (["task.words=1"], "task.words = 1: must be a list, such as 'task.words=[1]'"),
        (["task.seed=x"], "task.seed = 'x': must be a valid integer"),
    ],
)
def test_knobs_are_checked(own, words, message):
    with pytest.raises(MetisError) as caught:
        load_config(None, ["task=echo.py:Echo", *words])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("echo.py:number", ["it is 3, not a class", "training()", "docs/tasks.md"]),
        ("echo.py:Half", ["Half has no method 'episode'"]),
        ("echo.py:Silent", ["Silent does not say what its rewards are", '"binary" or "cont']),
        ("echo.py:Endless", ["training() gives no list of metis.Prompt"]),
        ("echo.py:Untested", ["heldout() gives no prompt"]),
        ("echo.py:Twice", ["two prompts are called 'echo:b'"]),
        ("echo.py:Raising", ["training raised ZeroDivisionError", "echo.py, line", "in training"]),
        ("echo.py:Odd", ["episode raised AttributeError", "in episode"]),
        ("echo.py:Mute", ["object, its episode, has no 'chat'"]),
        ("echo.py:Strange", ["a field of Strange has a type", "field(init=False)"]),
        ("echo.py:Unread", ["field of Unread", "name 'Chat' is not defined", "TYPE_CHECKING"]),
        ("nowhere:Echo", ["there is no module 'nowhere'"]),
        ("ekho", ["known are arithmetic", "path/to/file.py:Name"]),
    ],
)
def test_what_is_no_task_is_refused_in_one_line(own, name, words):
    with pytest.raises(MetisError) as caught:
        load_config(None, [f"task={name}"])
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"task = {name!r}: ")
    for word in words:
        assert word in message
