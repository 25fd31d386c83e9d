"""VIP: the allocation by hand and against every other one, and its Gaussian process by hand."""

import itertools

import numpy as np
import pytest

from laws import run
from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.config import resolve
from metis.core import state as states
from metis.curricula.judges import GaussianProcess, Prediction
from metis.curricula.judges.gaussian_process import CERTAIN, NOISE, WIDTH, _projected
from metis.curricula.knapsack import Knapsack
from metis.curricula.vip import Vip
from metis.engines.simulated import SimulatedEngine, Simulation


def predicted(*rates):
    return [Prediction(Prompt(f"p{i}", ""), None, None, pass_rate=p) for i, p in enumerate(rates)]


def allocated(curriculum, *rates):
    return curriculum.allocate(predicted(*rates)).tolist()


def test_the_allocation_by_hand():
    """f(n) - f(n + 1) from 4 on: .0275, .0211, .0164, .0131, .0106, .0088; times .25 and .09.

    .0069 .0053 .0041 .0033 .0027 (five for the first), .0025 (second), .0022, .0019 (second).
    """
    assert allocated(Vip(), 0.5, 0.1) == allocated(Vip(), 0.5, 0.9) == [10, 6]
    assert Vip()._lowered()[:2].tolist() == pytest.approx([3 / 16 - 4 / 25, 4 / 25 - 5 / 36])
    lowered = Vip(estimator="rloo")._lowered()
    assert lowered[:2].tolist() == pytest.approx([1 / 3 - 1 / 4, 1 / 4 - 1 / 5])
    assert allocated(Vip(), 0.3, 0.3, 0.3) == [8, 8, 8]
    assert allocated(Vip(most=9), 0.5, 0.0) == [9, 7]


@pytest.mark.parametrize(("estimator", "least"), [("grpo", 3), ("rloo", 2)])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_allocation_has_less_variance(estimator, least, seed):
    rates = np.random.default_rng(seed).random(4)
    curriculum = Vip(group=5, least=least, most=9, estimator=estimator)

    def variance(counts):
        n = np.array(counts, dtype=float)
        f = (n - 1) / n**2 if estimator == "grpo" else 1 / (n - 1)
        return float(np.sum(rates * (1 - rates) * f))

    every = itertools.product(range(least, 10), repeat=4)
    lowest = min(variance(counts) for counts in every if sum(counts) == 20)
    counts = allocated(curriculum, *rates)
    assert sum(counts) == 20
    assert variance(counts) == pytest.approx(lowest, rel=1e-12)


def test_another_judge_s_variance_will_do_and_what_has_none_is_usual():
    said = [Prediction(Prompt(name, ""), v, v) for name, v in (("a", 0.25), ("b", 0.09))]
    assert Vip().allocate(said).tolist() == [10, 6]
    three = [*said, Prediction(Prompt("c", ""), None, None)]
    first, second, unknown = Vip().allocate(three).tolist()
    assert first > unknown > second and first + second + unknown == 24
    assert Vip().allocate([three[2]] * 2).tolist() == [8, 8]


def process(**settings):
    """A judge that has read the states of ten prompts, and an engine that gives them."""
    judge = GaussianProcess(**settings)
    prompts = [Prompt(f"x{i}", f"{i}") for i in range(10)]
    vectors = dict(
        zip(prompts, np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32), strict=True)
    )

    class Reader:
        asked = 0

        def answer(self, request):
            self.asked += len(request.prompts)
            return [vectors[prompt] for prompt in request.prompts]

    return judge, prompts, np.stack(list(vectors.values())).astype(float), Reader()


def played(judge, prompts, reader, rewards, step=0):
    """Predictions of a step, from whose rewards the judge then learns."""
    pool, progress = Pool(prompts), Progress(step)
    predictions = drive(judge.predict(prompts, len(prompts), pool, progress), reader)
    groups = [Group(p, tuple(r)) for p, r in zip(prompts, rewards, strict=False)]
    judge.learn(predictions, groups, pool, progress)
    return [each.pass_rate for each in predictions.candidates]


def logit(p):
    p = np.clip(p, CERTAIN, 1 - CERTAIN)
    return np.log(p / (1 - p))


def test_the_posterior_mean_is_updated_by_the_equations_of_a_gaussian_process():
    """On all ten prompts at once: m <- m + K_at (K_tt + noise)^-1 (logit(p) - m_t), twice."""
    judge, prompts, vectors, reader = process()
    assert played(judge, prompts, reader, [(1.0, 0.0), (1.0, 1.0, 0.0, 0.0), (0.0, 0.0)]) == (
        pytest.approx([1 / (1 + np.e)] * 10)
    ), "the prior, before there are outcomes"
    scaled = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0) / np.sqrt(3)
    distances = np.linalg.norm(scaled[:, None] - scaled, axis=-1)
    kernel = np.exp(-0.5 * (distances / np.median(distances[np.triu_indices(10, 1)])) ** 2)
    mean = np.full(10, -1.0)
    for places, rates in (([0, 1, 2], [0.5, 0.5, 0.0]), ([1, 7], [0.75, 1.0])):
        inside = kernel[np.ix_(places, places)] + NOISE * np.eye(len(places))
        mean = mean + kernel[:, places] @ np.linalg.solve(inside, logit(rates) - mean[places])
    again = [prompts[1], prompts[7]]
    played(judge, again, reader, [(1.0, 1.0, 1.0, 0.0), (1.0, 1.0)], step=1)
    found = played(judge, prompts, reader, [], step=2)
    assert logit(found) == pytest.approx(logit(1 / (1 + np.exp(-mean))), abs=1e-3)
    assert found[0] != found[9] and judge.rows.keys() == {"x0", "x1", "x2", "x7"}


def test_a_prompt_with_an_outcome_is_not_read_again():
    judge, prompts, _, reader = process()
    played(judge, prompts, reader, [(1.0, 0.0)] * 4)
    assert reader.asked == 10
    played(judge, prompts, reader, [(0.0, 0.0)] * 4, step=1)
    assert reader.asked == 16


def test_states_that_are_no_numbers_have_no_prediction():
    judge, prompts, _, reader = process()
    played(judge, prompts, reader, [(1.0, 0.0)] * 4)
    reader.answer = lambda request: [np.full(3, np.nan, np.float32) for _ in request.prompts]
    found = played(judge, prompts, reader, [(1.0, 0.0)] * 10, step=1)
    assert [rate is None for rate in found] == [False] * 4 + [True] * 6
    assert len(judge.rows) == 4


def test_wide_states_are_kept_at_the_width_of_the_paper_s_embeddings():
    wide = np.random.default_rng(1).normal(size=(6, 2000))
    kept = _projected(wide)
    assert kept.shape == (6, WIDTH)
    before = np.linalg.norm(wide[:, None] - wide, axis=-1)
    after = np.linalg.norm(kept[:, None] - kept, axis=-1)
    apart = before > 0
    assert after[apart] == pytest.approx(before[apart], rel=0.15)


def test_state_is_small_enough_to_be_saved_and_goes_on(tmp_path):
    judge, prompts, _, reader = process()
    played(judge, prompts, reader, [(1.0, 0.0)] * 4)
    states.save_state(tmp_path / "state", judge.state_dict())
    other = GaussianProcess()
    other.load_state_dict(states.load_state(tmp_path / "state"))
    expected = played(judge, prompts, reader, [(1.0, 1.0)] * 9, step=1)
    assert played(other, prompts, reader, [(1.0, 1.0)] * 9, step=1) == expected
    assert np.array_equal(other.weights, judge.weights)


@pytest.mark.parametrize("judge", ["gaussian_process", "history", "readout", "direct"])
def test_rollouts_have_more_variance_than_in_equal_groups(judge):
    """The policy stands still. The variance is that of the update: a mean over rollouts."""

    def trained(name, **settings):
        section = {"name": name, **settings}
        curriculum = resolve({"batch": 32, "group": 8, "curriculum": section}).curriculum
        engine = SimulatedEngine(Simulation(prompts=128, heldout=1, rate=0.0))
        batches = run(curriculum, engine, Pool(engine.pool), 24)
        late = [group for batch in batches[8:] for group in batch.groups]
        assert {sum(len(g.rewards) for g in batch.groups) for batch in batches} == {256}
        weights = [len(group.rewards) for group in late]
        return np.average([group.variance for group in late], weights=weights)

    assert trained("vip", judge=judge) > 1.2 * trained("uniform")


def test_a_rate_next_to_zero_is_no_division_by_zero():
    counts = allocated(Knapsack(group=8), 1e-20, 1 - 1e-12, 0.5)
    assert sum(counts) == 24


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"least": 2}, "curriculum.least = 2: use at least 3"),
        ({"group": 3}, "curriculum.least = 4: use at most group"),
        ({"most": 7}, "curriculum.most = 7"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(MetisError, match=words):
        Vip(**settings)


@pytest.mark.parametrize("settings", [{"layer": 0.0}, {"layer": float("inf")}])
def test_impossible_processes_are_refused(settings):
    with pytest.raises(MetisError, match=r"curriculum\.judge\."):
        GaussianProcess(**settings)
