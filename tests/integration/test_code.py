"""Programming on the local engine: real tests, continuous rewards, every curriculum of the paper.

A random model writes no programs, so what it writes decides which of a problem's answers is scored:
the right one, one that knows the first answer only, or none.
"""

import threading
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from laws import check, make, run
from metis import Pool
from metis.engines.local.engine import LocalEngine
from metis.engines.workers import Workers
from metis.tasks.base import SingleTurn
from metis.tasks.code import pool as pools
from metis.tasks.code.task import Code, CodeTask
from metis.tasks.processes import Worker
from programmed import answer, first_answer
from sandboxed import needs_bubblewrap

pytestmark = needs_bubblewrap
BATCH = 3


class Scripted(CodeTask):
    """The embedded problems with made answers."""

    def training(self):
        return super().training()[:12]

    def episode(self, prompt):
        played, problem = super().episode(prompt), self.problem(prompt.id)
        said = (answer(problem.reference), answer(first_answer(problem)), "no idea")
        short = [{"role": "user", "content": prompt.id}]
        return SingleTurn(short, lambda text: played.score(said[sum(map(ord, text)) % 3]))


@pytest.fixture
def engine(settings):
    made = LocalEngine(replace(settings, max_tokens=4), Scripted(Code(), 0), 0)
    yield made
    made.rewards.close()


@pytest.mark.parametrize("name", ["uniform", "sec", "adcl", "pcl", "metis"])
def test_a_curriculum_trains_on_programs(name, engine):
    pool = Pool(engine.task.training(), engine.task.rewards)
    batches = run(make(name, batch=BATCH), engine, pool, 3)
    for batch in batches:
        check(batch, pool, BATCH)
    rewards = [r for batch in batches for group in batch.groups for r in group.rewards]
    assert {0.0, 1.0} < set(rewards), "partial credit"
    assert all(group.failed == 0 for batch in batches for group in batch.groups)


def test_as_many_programs_are_scored_at_a_time_as_there_are_workers(engine):
    run(make("uniform", batch=BATCH), engine, Pool(engine.task.training(), "continuous"), 1)
    assert engine.rewards.rewards.places == pools.cores()
    assert engine.rewards.backlog > pools.cores()


def test_a_step_outlives_workers_that_are_killed(engine, monkeypatch):
    ask, asked = Worker.ask, []

    def kill_every_third(worker, *arguments):
        asked.append(worker)
        if len(asked) % 3 == 0:
            worker.process.kill()
        return ask(worker, *arguments)

    monkeypatch.setattr(Worker, "ask", kill_every_third)
    pool = Pool(engine.task.training(), engine.task.rewards)
    [batch] = run(make("uniform", batch=BATCH), engine, pool, 1)
    reports = [report for group in batch.groups for report in group.reports]
    assert sum(report["rescored"] for report in reports) > 0
    assert len(reports) + sum(group.failed for group in batch.groups) == 4 * BATCH


def test_generation_waits_while_too_many_answers_are_unscored(engine, monkeypatch):
    rewards, free, seen = engine.rewards, threading.Event(), []
    rewards.serve(engine.task)
    wait_below = Workers.wait_below

    def release(workers, count):
        seen.append(workers.unfinished)
        free.set()
        wait_below(workers, count)

    monkeypatch.setattr(Workers, "wait_below", release)
    held = [rewards.rewards.submit(free.wait, "held") for _ in range(rewards.backlog)]
    rewards.turn(lambda: None)
    assert seen == [rewards.backlog] and rewards.rewards.unfinished < rewards.backlog
    assert all(future.result() for future in held) and rewards.waited > 0
