import pytest

from metis import MetisError, Pool, Progress, Prompt, drive
from metis.config import load_config, resolve
from metis.curricula.staged import Staged
from metis.engines.simulated import SimulatedEngine, Simulation

DOMAINS = ["math", "code", "logic-1", "logic-2"]


def world(size=40, domains=DOMAINS, difficulties=None):
    engine = SimulatedEngine(Simulation(prompts=size, heldout=1))
    prompts = [
        Prompt(prompt.id, prompt.text, domains[i % len(domains)], (difficulties or {}).get(i))
        for i, prompt in enumerate(engine.pool)
    ]
    return engine, Pool(prompts)


def walk(staged, engine, pool, steps=8, start=0, total=8):
    """The domains of each step, and the notices."""
    batches = [
        drive(staged.step(pool, Progress(step, step / total)), engine)
        for step in range(start, steps)
    ]
    domains = [{group.prompt.category for group in batch.groups} for batch in batches]
    return domains, [text for batch in batches for text in batch.notices]


def test_mathematics_first_and_then_everything():
    staged = Staged(batch=9, group=2, stages=("math", "*"))
    domains, notices = walk(staged, *world())
    assert domains[:4] == [{"math"}] * 4
    assert set().union(*domains[4:]) == set(DOMAINS)
    assert notices == [
        "stage 1 of 2: 10 prompts of 'math'",
        "stage 2 of 2: 40 prompts of 'code', 'logic-1', 'logic-2', 'math'",
    ]


def test_stages_of_several_categories_switch_at_their_shares_of_the_budget():
    staged = Staged(
        batch=9, group=2, stages=("math", ("math", "code"), "logic-*"), switch=(0.25, 0.75)
    )
    domains, _ = walk(staged, *world())
    assert domains[:2] == [{"math"}] * 2
    assert domains[2:6] == [{"math", "code"}] * 4
    assert domains[6:] == [{"logic-1", "logic-2"}] * 2


def test_a_stage_visits_every_prompt_before_it_repeats_one():
    engine, pool = world()
    staged = Staged(batch=5, group=2, stages=(("math", "code"),))
    batches = [drive(staged.step(pool, Progress(step)), engine) for step in range(4)]
    seen = [group.prompt.id for batch in batches for group in batch.groups]
    assert len(set(seen)) == 20


def test_a_stage_smaller_than_the_batch_trains_on_what_it_has():
    engine, pool = world()
    batch = drive(Staged(batch=32, group=2, stages=("math", "*")).step(pool, Progress(0)), engine)
    assert len(batch.groups) == 10
    assert batch.metrics == {"select/stage": 1.0, "select/stage_prompts": 10.0}


def test_a_stage_is_not_gone_back_on_and_a_resumed_run_says_nothing_twice():
    engine, pool = world()
    staged = Staged(batch=4, group=2, stages=("math", "*"))
    walk(staged, engine, pool, steps=5)
    resumed = Staged(batch=4, group=2, stages=("math", "*"))
    resumed.load_state_dict(staged.state_dict())
    again = Pool(pool.prompts)
    again.load_state_dict(pool.state_dict())
    assert walk(resumed, engine, again, start=5)[1] == []
    batch = drive(resumed.step(again, Progress(9, 0.1)), engine)
    assert batch.metrics["select/stage"] == 2.0


def test_without_stages_the_easiest_category_comes_first_and_then_all():
    domains, _ = walk(Staged(batch=9, group=2), *world())
    assert domains[0] == {"code"}
    easy = {i: float(i % 4 != 2) for i in range(40)}
    domains, _ = walk(Staged(batch=9, group=2), *world(difficulties=easy))
    assert domains[0] == {"logic-1"}
    assert len(domains[-1]) > 1


def test_names_that_the_pool_does_not_have_are_refused():
    with pytest.raises(MetisError, match=r"curriculum.stages = 'maths'.*'code', 'logic-1'"):
        walk(Staged(stages=("maths", "*")), *world())
    with pytest.raises(MetisError, match=r"curriculum.stages = \[\]: all 40 training prompts"):
        walk(Staged(), *world(domains=[""]))


@pytest.mark.parametrize(
    ("knobs", "key"),
    [
        ({"stages": ("math", ())}, "stages"),
        ({"stages": ("math", "*"), "switch": (0.2, 0.4)}, "switch"),
        ({"stages": ("math", "code", "*"), "switch": (0.6, 0.4)}, "switch"),
        ({"stages": ("math", "*"), "switch": (1.0,)}, "switch"),
    ],
)
def test_knobs_are_checked(knobs, key):
    with pytest.raises(MetisError, match=f"curriculum.{key} = "):
        Staged(**knobs)


def test_stages_are_written_as_lists():
    def configured(*settings):
        curriculum = load_config(
            None, ["engine=simulated", "curriculum=staged", *settings]
        ).curriculum
        return curriculum.stages, curriculum.switch

    assert configured('curriculum.stages=["math",["math","code"]]', "curriculum.switch=[0.3]") == (
        ("math", ("math", "code")),
        (0.3,),
    )
    section = {"name": "staged", "stages": [["math"], "*"]}
    config = resolve({"engine": "simulated", "curriculum": section})
    assert config.curriculum.stages == (("math",), "*")
    assert config.resolved["curriculum"]["stages"] == [["math"], "*"]
    with pytest.raises(MetisError, match=r"curriculum\.stages = 'math'"):
        configured("curriculum.stages=math")
