"""The selector as a trainer sees it: picks, outcomes, gates, lag, resuming, what it refuses."""

import asyncio
import math
import pickle
import random

import numpy as np
import pytest

import metis
from metis import AsyncSelector, MetisError, Prompt, Selector
from metis.core import Embed, Fit, Predict
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.selector.selection import LATE

TEXTS = [f"What is {i} + 1?" for i in range(40)]


def observe_all(selector, picks, rewards=(0.0, 1.0)):
    return [selector.observe(pick.id, (list(rewards) * pick.n)[: pick.n]) for pick in picks]


# Rows


@pytest.mark.parametrize(
    ("row", "key", "text"),
    [
        ("How many?", "0", "How many?"),
        ({"question": "How many?"}, "0", "How many?"),
        ({"prompt": "How many?", "id": 170, "answer": "3"}, "170", "How many?"),
        ({"prompt": [{"role": "user", "content": "How many?"}]}, "0", "How many?"),
        (
            [{"role": "system", "content": "Count."}, {"role": "user", "content": "How many?"}],
            "0",
            "How many?",
        ),
        (Prompt("own:3", "How many?"), "own:3", "How many?"),
    ],
)
def test_rows_of_every_kind_come_back_as_they_were_given(row, key, text):
    selector = Selector([row, *TEXTS], "uniform", batch=41, group=2)
    [pick] = [pick for pick in selector.propose() if pick.key == key]
    assert pick.prompt is row
    assert selector.rows[0].text == text


def test_a_dataset_is_read_row_by_row_and_its_texts_are_not_copied():
    class Dataset:
        def __init__(self):
            self.read = []

        def __len__(self):
            return 50

        def __getitem__(self, place):
            assert isinstance(place, int) and 0 <= place < 50
            self.read.append(place)
            return {"problem": f"problem {place}", "id": f"row-{place}", "answer": place}

    data = Dataset()
    selector = Selector(data, "mopps", batch=2, group=2, multiplier=2)
    selector.propose()
    data.read.clear()
    for pick in selector.propose():
        assert pick.key == f"row-{pick.prompt['answer']}"
    assert len(data.read) < 10
    held = pickle.dumps(selector.rows.given.__dict__)
    assert b"problem 7" not in held


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": 1, "answer": "3"}], r"prompts\[0\] has the columns id, answer"),
        ([3], r"prompts\[0\] = 3"),
        ([{"prompt": "a", "id": 1}, {"prompt": "b", "id": 1}], "'1' occurs twice"),
        (["a"], "batch = 2: the training set has only 1 prompts"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(rows, said):
    with pytest.raises(MetisError, match=said):
        Selector(rows, "uniform", batch=2, group=2)


def test_categories_and_difficulties_are_read():
    rows = [
        {"prompt": text, "category": "ab"[i % 2], "difficulty": i} for i, text in enumerate(TEXTS)
    ]
    staged = Selector(rows, "staged", batch=4, group=2, stages=["b", "*"])
    assert {pick.prompt["category"] for pick in staged.propose()} == {"b"}
    easy = Selector(rows, "e2h", batch=4, group=2, categories="difficulty", schedule="classic")
    assert max(pick.prompt["difficulty"] for pick in easy.propose()) < 10


# Outcomes


def test_outcomes_come_in_any_order_and_a_second_one_is_refused():
    selector = Selector(TEXTS, "mopps", batch=4, group=2, multiplier=2)
    first, second = selector.propose(), selector.propose()
    assert len({pick.id for pick in first + second}) == 8
    for pick in random.Random(0).sample(first + second, 7):
        selector.observe(pick.id, [1.0, 0.0])
    [left] = selector.outstanding
    done = next(p for p in (first if left in first else second) if p != left)
    with pytest.raises(MetisError, match=f"pick {done.id} was observed before"):
        selector.observe(done.id, [1.0, 0.0])
    with pytest.raises(MetisError, match="pick 8 was never proposed"):
        selector.observe(8, [1.0, 0.0])
    assert selector.metrics()["selector/ended"] == 1
    selector.observe(left.id, [1.0, 0.0])
    assert selector.metrics()["selector/ended"] == 2
    assert selector.observe(done.id, [1.0, 0.0]) is False


def test_the_same_prompt_twice_at_a_time_has_two_picks():
    selector = Selector(TEXTS[:4], "uniform", batch=4, group=2)
    first, second = selector.propose(), selector.propose()
    assert {pick.key for pick in first} == {pick.key for pick in second}
    assert not {pick.id for pick in first} & {pick.id for pick in second}


def test_missing_rewards_are_failed_rollouts():
    selector = Selector(TEXTS, "mopps", batch=4, group=4, multiplier=2)
    a, b, c, d = selector.propose()
    assert selector.observe(a.id, [1.0, 0.0], failed=2)
    assert selector.observe(b.id, [True, None, np.float32(0.0)])
    assert not selector.observe(c.id, [], failed=4)
    selector.drop(d.id)
    assert selector.observe(d.id, [1.0]) is False
    metrics = selector.metrics()
    assert (metrics["selector/failed"], metrics["selector/dropped"]) == (2 + 2 + 4, 1)
    posterior = selector.state_dict()["curriculum"]["posterior"]
    assert posterior == {a.key: [2.0, 2.0], b.key: [2.0, 2.0]}


@pytest.mark.parametrize(
    ("rewards", "failed", "said"),
    [
        ([1.0, 0.0, 1.0], 0, "3 rewards and 0 failed rollouts: it was proposed for 2"),
        ([1.0], 2, "1 rewards and 2 failed"),
        ([0.5, 1.0], 0, "reward 0.5 is not 0 or 1; set rewards='continuous'"),
        ([2.0, 1.0], 0, r"rewards must be numbers in \[0, 1\]"),
        ([math.nan], 0, r"rewards must be numbers in \[0, 1\]"),
    ],
)
def test_an_outcome_that_cannot_be_is_refused_and_the_pick_stays_open(rewards, failed, said):
    selector = Selector(TEXTS, "uniform", batch=2, group=2)
    pick, _ = selector.propose()
    with pytest.raises(MetisError, match=said):
        selector.observe(pick.id, rewards, failed=failed)
    assert pick in selector.outstanding
    assert selector.observe(pick.id, [1.0, 0.0])


def test_outcomes_that_never_come_count_as_dropped_after_some_steps():
    selector = Selector(TEXTS, "mopps", batch=2, group=2, multiplier=2)
    lost, other = selector.propose()
    selector.observe(other.id, [1.0, 0.0])
    for _ in range(LATE):
        observe_all(selector, selector.propose())
    assert lost in selector.outstanding and selector.metrics()["selector/late"] == 0
    observe_all(selector, selector.propose())
    assert lost not in selector.outstanding and selector.metrics()["selector/late"] == 1
    assert selector.observe(lost.id, [1.0, 0.0]) is False


# What is trained on


@pytest.mark.parametrize("name", ["dapo", "greso", "vcrl", "ragen2"])
def test_a_filter_is_a_gate(name):
    selector = Selector(TEXTS, name, batch=4, group=4)
    dead, mixed, *_ = selector.propose()
    assert selector.observe(dead.id, [1.0] * 4) is False
    assert selector.observe(mixed.id, [1.0, 0.0, 1.0, 0.0]) is True


def test_rollouts_that_measure_are_not_trained_on():
    selector = Selector(TEXTS, "adcl", batch=8, group=4, chunks=2, measure=2)
    picks = selector.propose()
    assert {(pick.n, pick.measure) for pick in picks} == {(2, True)}
    with pytest.raises(MetisError, match=r"'adcl': a step has to end .* 16 picks are outstanding"):
        selector.propose()
    assert not any(observe_all(selector, picks))
    while picks[0].measure:
        picks = selector.propose()
        trained = observe_all(selector, picks)
    assert {pick.n for pick in picks} == {4} and all(trained)


def test_speed_continues_what_passed_its_screening():
    selector = Selector(TEXTS, "speed", batch=2, group=6, screen=2, train="continuation")
    picks = selector.propose()
    assert not any(observe_all(selector, picks))
    screened = {pick.key for pick in picks}
    later = [pick for _ in range(4) for pick in _observed(selector)]
    continued = [pick for pick in later if not pick.measure]
    assert continued and {pick.n for pick in continued} == {6}
    assert screened & {pick.key for pick in continued}


def _observed(selector):
    picks = selector.propose()
    observe_all(selector, picks)
    return picks


# What it asks


def vectors(request):
    assert isinstance(request, Embed)
    return [[float(len(prompt.text)), 1.0] for prompt in request.prompts]


def test_a_function_answers_for_the_model():
    torch = pytest.importorskip("torch")
    seen = []

    def ask(request):
        seen.append(request)
        return [torch.tensor(row, dtype=torch.bfloat16) for row in vectors(request)]

    selector = Selector(TEXTS, "metis", preset="readout", batch=4, group=2, ask=ask)
    observe_all(selector, selector.propose())
    selector.propose()
    assert [len(request.prompts) for request in seen] == [32, 32]
    assert selector.metrics()["select/candidates"] == 32.0


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ([[1.0, 2.0]], "Embed with 1 values for 32"),
        (None, "Embed with NoneType for 32"),
        ([[1.0]] * 31 + [[1.0, 2.0]], r"Embed with arrays of the shapes \(1,\), \(2,\)"),
        (["text"] * 32, "Embed with str, which is no vector"),
    ],
)
def test_a_wrong_answer_is_refused_and_may_be_mended(reply, said):
    answers = [reply]
    selector = Selector(
        TEXTS,
        "probe",
        batch=4,
        group=2,
        ask=lambda request: answers.pop() if answers else vectors(request),
    )
    with pytest.raises(MetisError, match=f"ask answered {said}"):
        selector.propose()
    assert len(selector.propose()) == 4
    assert selector.metrics()["selector/begun"] == 1


def test_a_value_model_of_one_s_own_predicts_and_learns():
    fitted = []

    def ask(request):
        if isinstance(request, Predict):
            return [0.5 if prompt.id in "37" else 1.0 for prompt in request.prompts]
        assert isinstance(request, Fit)
        fitted.append(dict(zip([p.id for p in request.prompts], request.targets, strict=True)))
        return np.float32(0.25)

    selector = Selector(TEXTS, "pcl", batch=2, group=2, multiplier=20, ask=ask)
    picks = selector.propose()
    assert {pick.key for pick in picks} == {"3", "7"}
    observe_all(selector, picks)
    selector.propose()
    assert fitted == [{"3": 0.5, "7": 0.5}]
    assert selector.metrics()["select/value_loss"] == 0.25


# What it refuses


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("metis", {}, "needs a loss of its own, .* metis \\(preset='readout'\\)"),
        ("metis", {"preset": "paper"}, "needs a loss of its own"),
        ("oracle", {}, "needs the rollouts of all candidates"),
        ("speed", {}, "the screening .curriculum.train=continuation"),
        ("dots", {}, "to replay .curriculum.fresh=1 replays none"),
        ("probe", {}, "needs answers to Embed: give ask="),
        ("pcl", {}, "needs answers to Fit and Predict: give ask="),
        ("sec", {"categories": "clusters"}, "needs answers to Embed: give ask="),
    ],
)
def test_what_cannot_be_served_is_refused_with_what_can(name, settings, said):
    with pytest.raises(MetisError, match=said) as refused:
        Selector(TEXTS, name, batch=4, group=4, **settings)
    assert "serves uniform, sec (preset='published'), dump, e2h, staged" in str(refused.value)


def test_settings_are_those_of_the_curriculum():
    with pytest.raises(MetisError, match=r"curriculum\.decay = 2"):
        Selector(TEXTS, "mopps", decay=2)
    with pytest.raises(MetisError, match="multiplyer"):
        Selector(TEXTS, "mopps", multiplyer=2)
    own = metis.curriculum("mopps", batch=3, group=5, multiplier=2)
    assert [pick.n for pick in Selector(TEXTS, own).propose()] == [5, 5, 5]
    with pytest.raises(MetisError, match="an instance of a curriculum has its own settings"):
        Selector(TEXTS, own, decay=0.5)


# Resuming


def test_a_state_of_other_settings_or_prompts_is_refused():
    saved = Selector(TEXTS, "mopps", batch=4, group=2).state_dict()
    for other, said in (
        (Selector(TEXTS, "uniform", batch=4, group=2), "use the same settings"),
        (Selector(TEXTS, "mopps", batch=5, group=2), "use the same settings"),
        (Selector(TEXTS[1:], "mopps", batch=4, group=2), "training set"),
        (Selector(TEXTS, "mopps", batch=4, group=2, seed=1), "seed"),
    ):
        with pytest.raises(MetisError, match=said):
            other.load_state_dict(saved)


def test_the_picks_that_were_outstanding_are_there_after_resuming():
    before = Selector(TEXTS, "mopps", batch=4, group=2)
    picks = before.propose()
    before.observe(picks[0].id, [1.0, 0.0])
    after = Selector(TEXTS, "mopps", batch=4, group=2)
    after.load_state_dict(pickle.loads(pickle.dumps(before.state_dict())))
    assert after.outstanding == picks[1:]


# Lag, and asynchronous trainers


def informative_share(name, lag, steps=120):
    engine = SimulatedEngine(Simulation(prompts=600, heldout=1))
    selector = Selector(engine.pool, name, batch=16, group=8, steps=steps)
    waiting, shares = [], []
    for step in range(steps):
        waiting.append(selector.propose())
        if len(waiting) > lag:
            picks = waiting.pop(0)
            groups = engine.rollout([pick.prompt for pick in picks], 8)
            for pick, group in zip(picks, groups, strict=True):
                selector.observe(pick.id, group.rewards)
            if step >= steps // 2:
                shares.append(np.mean([group.informative for group in groups]))
            assert selector.metrics()["selector/lag"] == min(lag, step)
    return np.mean(shares)


def test_mopps_is_above_uniform_at_every_lag():
    uniform = informative_share("uniform", 0)
    for lag in (0, 1, 3):
        assert informative_share("mopps", lag) > 1.3 * uniform


def test_a_step_that_ends_late_adds_to_what_was_learnt_meanwhile():
    rows = [{"prompt": text, "category": "ab"[i % 2]} for i, text in enumerate(TEXTS)]
    selector = Selector(rows, "sec", batch=12, group=2, alpha=0.5)
    values = []
    for picks in [selector.propose(), selector.propose()]:
        assert {pick.prompt["category"] for pick in picks} == {"a", "b"}
        observe_all(selector, picks)
        values.append(selector.state_dict()["curriculum"]["q"])
    assert values[1] == pytest.approx([1.5 * value for value in values[0]])


def test_the_async_twin_proposes_the_same():
    async def train():
        async def ask(request):
            await asyncio.sleep(0)
            return vectors(request)

        made = AsyncSelector(TEXTS, "probe", batch=4, group=2, ask=ask)
        found = []
        for _ in range(3):
            one, two = await asyncio.gather(made.propose(), made.propose())
            found += [one, two]
            observe_all(made, two + one)
        return found, made.state_dict()

    selector = Selector(TEXTS, "probe", batch=4, group=2, ask=vectors)
    proposed = []
    for _ in range(3):
        one, two = selector.propose(), selector.propose()
        proposed += [one, two]
        observe_all(selector, two + one)
    found, saved = asyncio.run(train())
    assert found == proposed
    assert repr(saved) == repr(selector.state_dict())
