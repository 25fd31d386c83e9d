"""Selection replayed on recorded outcomes, on the tiny model and a set made for it."""

import numpy as np
import pytest

from metis import MetisError


@pytest.fixture(scope="module")
def benchmark(benchmark_script):
    return benchmark_script("judge_online")


@pytest.fixture
def run(benchmark, kept, tiny, capsys):
    def call(*words):
        small = ["--steps", "6", "--batch", "4", "--seeds", "2", "--device", "cpu"]
        benchmark.main([str(kept), "--model", str(tiny), *small, *words])
        printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
        rows = [line.strip("| ").split(" | ") for line in printed[2:]]
        return {name.strip(): [_share(cell) for cell in cells] for name, *cells in rows}

    return call


def _share(cell):
    return float(cell.split("%")[0]) / 100


def test_every_arm_is_replayed_and_an_oracle_sees_what_is_informative(run, benchmark):
    shares = run()
    assert list(shares) == list(benchmark.ARMS)
    assert shares["oracle"][-1] > 0.9 > shares["uniform"][-1]


def test_states_are_read_once_and_kept(run, tmp_path, monkeypatch, benchmark):
    kept = tmp_path / "states.npz"
    words = ("--arms", "probe", "readout", "--states", str(kept))
    first = run(*words)
    with np.load(kept) as states:
        assert len(set(states["keys"].tolist())) == len(states["states"]) == 2 * 48
    monkeypatch.setattr(benchmark.Model, "fresh", lambda self: pytest.fail("a state is read again"))
    assert run(*words) == first


def test_states_of_another_model_are_refused(run, tmp_path):
    kept = tmp_path / "new" / "states.npz"
    words = ("--arms", "probe", "--states", str(kept))
    run(*words)
    with np.load(kept) as states:
        content = dict(states)
    np.savez(kept, **{**content, "model": "other"})
    with pytest.raises(MetisError, match=r"states\.npz' is of another model: name another"):
        run(*words)


def test_states_that_another_process_kept_stay(run, tmp_path):
    kept = tmp_path / "states.npz"
    run("--arms", "probe", "--states", str(kept))
    with np.load(kept) as states:
        content = dict(states)
    content["keys"][0] = "of another process"
    np.savez(kept, **content)
    run("--arms", "probe", "--states", str(kept))
    with np.load(kept) as states:
        assert set(states["keys"]) > {"of another process"}
        assert len(states["keys"]) == len(content["keys"]) + 1


def test_prompts_that_are_solved_are_left_out(run):
    """A third is solved: without it, half of the rest is informative."""
    some, all_of_them = (run("--arms", "uniform", *most) for most in (("--most", "0.5"), ()))
    assert some["uniform"][-1] > all_of_them["uniform"][-1]
