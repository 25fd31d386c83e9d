"""What verl's engine asks of the agent loops."""

from types import SimpleNamespace

from metis import Prompt
from metis.core import Rollout
from metis.engines.verl.engine import VerlEngine


def test_groups_may_be_of_different_sizes():
    idle = SimpleNamespace(play=lambda prompts, n, version: [n])
    engine = VerlEngine(idle, idle, None, None, None, seed=0)
    prompts = [Prompt("a", "a"), Prompt("b", "b")]
    assert engine.answer(Rollout(prompts, [4, 4])) == [4]
    assert engine.answer(Rollout(prompts, [2, 4])) == [[2, 4]]
