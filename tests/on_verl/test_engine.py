"""What verl's engine refuses."""

from types import SimpleNamespace

import pytest

from metis import MetisError, Prompt
from metis.core import Rollout
from metis.engines.verl.engine import VerlEngine


def test_groups_of_several_sizes_are_refused_by_name():
    idle = SimpleNamespace(play=lambda prompts, n, version: [n])
    engine = VerlEngine(idle, idle, None, None, None, seed=0)
    prompts = [Prompt("a", "a"), Prompt("b", "b")]
    assert engine.answer(Rollout(prompts, [4, 4])) == [4]
    with pytest.raises(MetisError, match=r"asks for 2 to 4 rollouts .*: use engine=local"):
        engine.answer(Rollout(prompts, [2, 4]))
