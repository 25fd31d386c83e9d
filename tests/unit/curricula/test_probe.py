"""The probe is METIS whose judge is ridge regression on the last layer."""

import pytest

from metis import Pool, Progress, drive
from metis.config import resolve
from metis.curricula.judges import Readout
from metis.curricula.metis import Metis
from metis.curricula.probe import Probe
from metis.engines.simulated import SimulatedEngine, Simulation


@pytest.mark.parametrize("rewards", ["binary", "continuous"])
def test_it_chooses_and_says_what_metis_with_that_readout_does(rewards):
    def batches(curriculum):
        engine = SimulatedEngine(Simulation(prompts=300, heldout=1, rewards=rewards))
        pool = Pool(engine.pool, rewards=rewards)
        for number in range(8):
            batch = drive(curriculum.step(pool, Progress(number)), engine)
            engine.update(batch)
            yield batch.decisions, dict(batch.metrics), list(batch.notices)

    sizes = {"batch": 8, "group": 4, "multiplier": 4}
    metis = Metis(**sizes, judge=Readout(regression="ridge", layer=1.0))
    assert list(batches(Probe(**sizes))) == list(batches(metis))


def test_its_judge_has_settings_and_may_be_another():
    def judge(**section):
        return resolve({"curriculum": {"name": "probe", **section}}).resolved["curriculum"]["judge"]

    assert judge() == {"name": "readout", "regression": "ridge", "layer": 1.0, "window": 20}
    assert judge(judge={"window": 5}) == {**judge(), "window": 5}
    assert judge(judge="reason")["name"] == "reason"
    assert (Probe().judge_trial.steps, Probe().explore) == (0, 0.1)
