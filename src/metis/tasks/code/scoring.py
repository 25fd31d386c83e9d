"""The reward of a response: the fraction of all tests that its program passes."""

from metis.tasks.base import Reward
from metis.tasks.code.extraction import program
from metis.tasks.code.pool import Pool, shared
from metis.tasks.code.problem import Problem


def reward(response: str, problem: Problem, pool: Pool | None = None) -> Reward:
    """Score a response, with shares to log beside it.

    all_passed  1 if no test failed
    no_code     1 if the response holds no program
    timeouts    share of the tests that ran out of time
    rescored    times that its worker was lost, so that the program ran again
    """
    code = program(response, problem.functions)
    if not code.strip():
        return {"score": 0.0, "all_passed": 0.0, "no_code": 1.0, "timeouts": 0.0, "rescored": 0.0}
    scored = (pool or shared()).run(problem.program(code), problem.tests, problem.limits)
    outcome = scored.outcome
    return {
        "score": outcome.fraction,
        "all_passed": float(outcome.passed == outcome.total),
        "no_code": 0.0,
        "timeouts": outcome.kinds.get("timeout", 0) / outcome.total,
        "rescored": float(scored.rescored),
    }
