"""Liveness of verl's workers, asked of real Ray actors."""

import math
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import ray
from verl.trainer.ppo.v1 import PPOTrainerSync

from metis import MetisError
from metis.engines.verl.servers import liveness
from metis.engines.verl.servers.liveness import Liveness
from metis.engines.verl.servers.said import FAILURE
from metis.engines.verl.trainer import MetisTrainer


@pytest.fixture(scope="module")
def workers():
    class Worker:
        """Of this function, since Ray's processes do not find this module."""

        def work(self):
            threading.Event().wait()

    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    kind = ray.remote(num_cpus=0)(Worker)
    made = {name: kind.remote() for name in ("living", "busy", "dead")}
    ray.get([worker.__ray_ready__.remote() for worker in made.values()])
    made["busy"].work.remote()
    ray.kill(made["dead"])
    yield SimpleNamespace(**made)
    ray.shutdown()


def trainer(loops, servers, rewards):
    return SimpleNamespace(
        agent_loop_manager=SimpleNamespace(agent_loop_workers=loops),
        llm_server_manager=SimpleNamespace(server_handles=servers),
        reward_loop_manager=SimpleNamespace(reward_loop_workers=rewards),
    )


def test_workers_that_live_are_left_alone_and_so_is_one_that_is_busy(workers, monkeypatch):
    monkeypatch.setattr(liveness, "PATIENCE", 0.5)
    Liveness.of(trainer([workers.living], [workers.living, workers.busy], [])).check_now()


@pytest.mark.parametrize(
    ("place", "name"),
    [(0, "an agent-loop worker"), (1, "a rollout server"), (2, "a reward worker")],
)
def test_one_that_died_ends_the_run_with_its_name(workers, place, name):
    kinds = [[workers.living], [workers.living], [workers.living]]
    kinds[place].append(workers.dead)
    watched = Liveness.of(trainer(*kinds))
    with pytest.raises(MetisError, match=rf"^{name} died \(ActorDiedError\): the last checkpoint"):
        watched.check_now()
    watched.check()  # it is not time yet
    watched.checked -= liveness.INTERVAL + 1
    with pytest.raises(MetisError, match=name):
        watched.check()


@pytest.fixture
def testing(monkeypatch):
    """A trainer that has tested: one prompt has one answer."""
    monkeypatch.setattr(PPOTrainerSync, "_val_metrics_update", lambda *_: {})
    testing = MetisTrainer.__new__(MetisTrainer)
    testing.liveness, testing.account, testing.journal = Mock(), Mock(), Mock()
    testing.account.test.return_value = {"eval/accuracy": 0.5}
    testing.tested, testing.global_steps, testing.names = False, 3, {"a": "sums:1", "b": "sums:2"}
    return testing


def validated(testing, **asked):
    expected = {("sums", name): count for name, count in asked.items()}
    return testing._val_metrics_update(["sums"], ["a"], {"reward": [1.0]}, [2], expected)


def test_answers_that_failed_are_counted_and_workers_checked(testing):
    assert validated(testing, a=1) == {"metis/eval/accuracy": 0.5}
    assert not testing.liveness.check_now.called
    found = validated(testing, a=1, b=2)
    assert found == {"metis/eval/accuracy": 0.5, "metis/eval/failed": 2.0}
    assert testing.liveness.check_now.called


def test_answers_that_are_kept_as_failed_are_as_those_that_verl_dropped(testing, monkeypatch):
    heard = []
    monkeypatch.setattr(
        PPOTrainerSync, "_val_metrics_update", lambda self, *given: heard.append(given) or {}
    )
    infos = {"reward": [math.nan, 1.0], "acc": [math.nan, 1.0], "more": [None, "x"]}
    infos[FAILURE] = ["ValueError: no number", None]
    expected = {("sums", "a"): 1, ("sums", "b"): 1}
    found = testing._val_metrics_update(["sums"] * 2, ["b", "a"], infos, [2, 4], expected)
    kept = {"reward": [1.0], "acc": [1.0], "more": ["x"]}
    assert heard == [(["sums"], ["a"], kept, [4], expected)]
    assert found["metis/eval/failed"] == 1.0
    testing.account.test.assert_called_once_with({"": [1.0, 0.0]})
    testing.journal.test.assert_called_once_with(3, {"sums:1": 1.0, "sums:2": 0.0})


def test_a_test_in_which_a_worker_died_is_not_written_down(testing):
    testing.liveness.check_now.side_effect = MetisError("a rollout server died")
    with pytest.raises(MetisError, match="a rollout server died"):
        validated(testing, a=2)
    assert not testing.account.test.called and not testing.journal.test.called
