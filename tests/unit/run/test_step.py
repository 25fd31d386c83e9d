"""The contract of a curriculum's step: what it returns is checked, its state can be saved."""

from dataclasses import dataclass, field

import pytest

from metis import MetisError
from metis.config import load_config
from metis.core import Batch, Stateful, rollout
from metis.loop import Run
from metis.run.meter import Meter
from metis.run.step import plan_step


@dataclass
class Own(Stateful):
    """Trains on what `returned` makes of the groups."""

    batch: int = 2
    group: int = 2
    returned: str = "Batch(groups)"
    seen: dict = field(init=False, default_factory=dict)

    def step(self, pool, progress):
        groups = yield from rollout(pool.sample(3), self.group)
        return eval(self.returned, globals(), {"groups": groups, "seen": self.seen})


class Plain(Own):
    """Forgets to ask with `yield`."""

    def step(self, pool, progress):
        return Batch([])


def planned(curriculum):
    run = Run.build(load_config(None, ["engine=simulated", "engine.prompts=40", "batch=2"]))
    return plan_step(curriculum, run.pool, run.account, 0, 0, Meter(run.engine))


@pytest.mark.parametrize("returned", ["Batch(groups[:2])", "Batch(())", "Batch(groups[2:])"])
def test_a_batch_of_at_most_its_size_is_trained_on(returned):
    assert len(planned(Own(returned=returned)).groups) <= 2


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("Batch(groups)", "3 groups: at most batch = 2 are trained on"),
        ("Batch([groups[0], groups[0]])", "2 times: the prompts of a batch are distinct"),
        ("groups", "a value of type list: return a metis.core.Batch"),
        ("None", "None: return a metis.core.Batch"),
        ("Batch(None)", "groups that are None: return a metis.core.Batch"),
        ("Batch([groups[0].prompt])", "a value of type Prompt among the groups"),
    ],
)
def test_what_is_no_batch_is_refused_by_the_name_of_the_class(returned, said):
    with pytest.raises(MetisError, match=r"^Own\.step returned ") as caught:
        planned(Own(returned=returned))
    assert said in str(caught.value)


def test_a_step_that_asks_for_nothing_is_told_how_to_ask():
    with pytest.raises(MetisError, match=r"Plain\.step returned .* Batch: .*`yield from`"):
        planned(Plain())


def test_state_that_the_first_step_makes_unsavable_is_refused_after_it():
    with pytest.raises(MetisError, match=r"Own: state field 'seen'.*must be strings"):
        planned(Own(returned="seen.update({1: 0.5}) or Batch([])"))
