"""Programs scored as verl asks for it: many at a time, none of them blocking the others."""

import asyncio
import json
import os
import signal
from contextlib import nullcontext

import pytest
from omegaconf import OmegaConf

import published_rows as published
from composing import composed
from metis.config import load_config
from metis.data import parquet
from metis.data.verl_rows import verl_row
from metis.engines.verl import reward
from metis.engines.verl.launch.checks import check_libraries
from metis.engines.verl.launch.from_recipe import overrides
from metis.errors import MetisError
from metis.run.folder import RunFolder
from metis.tasks.code import records
from metis.tasks.code.pool import cores, shared
from metis.tasks.code.published import bigcodebench, mbpp
from programmed import answer
from sandboxed import needs_bubblewrap

pytestmark = needs_bubblewrap
RIGHT, HALF = "def add(a, b):\n    return a + b", "def add(a, b):\n    return 3"


def scored(text, row=published.MBPP, reader=mbpp, **settings):
    problem = reader.problem(row)
    about = {"id": problem.id}
    truth = records.written(problem)
    return reward.score_code("metis/mbpp", text, truth, about, **settings)


def test_a_prepared_row_is_all_that_is_needed():
    async def both():
        return await asyncio.gather(scored(answer(RIGHT)), scored(answer(HALF)), scored("no idea"))

    right, half, none = asyncio.run(both())
    assert (right["score"], half["score"], none["score"]) == (1.0, 0.5, 0.0)
    assert right["reward/all_passed"] == 1.0
    assert (half["acc"], half["reward/all_passed"], none["reward/no_code"]) == (0.5, 0.0, 1.0)


def test_reward_workers_divide_the_cores():
    asyncio.run(scored(answer(HALF), share=2 * cores(), workers=0))
    _, scorer = reward._code((("workers", 0),), 2 * cores(), 600.0)
    assert scorer.rewards.rewards.places == 1
    assert scorer.room._value == scorer.rewards.backlog


def test_reward_workers_of_other_nodes_have_cores_of_their_own():
    asyncio.run(scored(answer(HALF), share=12, nodes=12, workers=0))
    _, scorer = reward._code((("workers", 0),), 1, 600.0)
    assert scorer.rewards.rewards.places == min(scorer.rewards.workers, cores())


def test_more_programs_than_there_is_room_for_all_get_their_turn():
    async def many():
        _, scorer = reward._code((), 1, 600.0)
        scorer.room = asyncio.Semaphore(2)
        return await asyncio.gather(*(scored(answer(HALF)) for _ in range(6)))

    assert [found["score"] for found in asyncio.run(many())] == [0.5] * 6
    reward._code.cache_clear()


def test_a_library_that_is_missing_is_an_error_and_no_score():
    row = json.loads(json.dumps(published.BIGCODEBENCH).replace("pandas", "no_such_package"))
    with pytest.raises(MetisError, match=r"the sandbox lacks no_such_package; .*SANDBOX_LIBRARIES"):
        asyncio.run(scored(answer("x = 1"), row, bigcodebench))


def test_a_library_that_validation_needs_is_missed_before_anything_starts(tmp_path):
    text = json.dumps(published.BIGCODEBENCH)
    for package, refused in (("json", False), ("no_such_package", True)):
        problem = bigcodebench.problem(json.loads(text.replace("pandas", package)))
        row = verl_row(
            problem.prompt,
            problem.chat(),
            0,
            source="metis/bigcodebench",
            ability="CODE",
            split="test",
            ground_truth=records.written(problem),
        )
        parquet.write(tmp_path / "bigcodebench.parquet", [row], {})
        config = OmegaConf.create(
            {
                "reward": {"custom_reward_function": {"name": "score_code"}},
                "data": {"val_files": [str(tmp_path / "bigcodebench.parquet")]},
            }
        )
        with pytest.raises(MetisError, match="need no_such_package") if refused else nullcontext():
            check_libraries(config)


def test_a_worker_that_is_killed_costs_no_reward():
    async def killed():
        first = await scored(answer(RIGHT))
        for process in shared().processes:
            os.kill(process, signal.SIGKILL)
        return first, await scored(answer(HALF))

    first, second = asyncio.run(killed())
    assert (first["score"], second["score"]) == (1.0, 0.5)


def test_a_run_s_code_task_is_scored_in_a_share_of_the_cores(tmp_path):
    config = load_config(None, ["engine=verl", "task=code", "curriculum=uniform"])
    with RunFolder.open(tmp_path / "run", config.resolved):
        pass
    words = composed(overrides(config, tmp_path / "run", "m")).reward.custom_reward_function
    assert words.reward_kwargs.share == 8
    prompt = config.task.heldout()[0]
    problem = config.task.problem(prompt.id)
    found = reward.compute_score(
        "metis", answer(problem.reference), "", {"id": prompt.id}, **words.reward_kwargs
    )
    assert asyncio.run(found)["score"] == 1.0
