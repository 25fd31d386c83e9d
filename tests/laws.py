"""The laws of curricula, checked on every engine."""

import json
import math
import os
import re
from dataclasses import replace

from metis import Progress, drive
from metis.curricula import CURRICULA
from metis.curricula.registry import presets
from metis.run.metrics import metric_entry, reason
from metis.settings.sections import curriculum_of

BATCH, ROLLOUTS = 6, 4
PREPARED = {
    "metis": {"trial": 4, "judge": {"replay": 6}},
    "adcl": {"chunks": 3, "measure": 2},
    "dots": {"predictor": {"width": 8, "epochs": 2}},
    "nemotron": {"measure": 2},
    "adarft": {"measure": 2},
    "knapsack": {"judge": {"enough": 1}},
    "vip": {"least": 3},
}
"""Knobs that let a method reach all of its phases within a short test."""

MEASURED = "measured"
"""The variant whose pool has no difficulties, so that they have to be measured."""

JUDGES_OF_ONES_OWN = ["own_judge:ByLength", *os.environ.get("METIS_JUDGE", "").split()]
"""The example, and judges named from outside."""

VARIANTS = {
    "metis": {
        "passes": {"judge": {"scale": "passes", "replay": 6, "train": 0.5}},
        "reason": {"judge": {"name": "reason", "failures": "last"}},
        "filtered": {"filter": {"name": "dapo", "rounds": 2}, "judge": {"replay": 6}},
        "tried": {"judge": {"name": "readout", "window": 3}, "trial": 4},
        **{name: {"judge": {"name": name}, "trial": 4} for name in JUDGES_OF_ONES_OWN},
    },
    "probe": {"window": {"judge": {"window": 3}}},
    "sec": {
        MEASURED: {"categories": "difficulty", "arms": 3, "measure": 2},
        "clusters": {"categories": "clusters", "arms": 3},
        "step": {"draw": "step"},
    },
    "adcl": {
        "variance": {"difficulty": "variance"},
        "filtered": {"filter": {"name": "dapo", "rounds": 2, "multiplier": 1.5}},
    },
    "pcl": {"policy": {"backbone": "policy"}},
    "mopps": {
        "threshold": {"choice": "threshold"},
        "mapp": {"choice": "mapp"},
        "filtered": {"filter": {"name": "ragen2", "rounds": 2}, "floors": {"prompts": 3}},
    },
    "uniform": {"filtered": {"filter": {"name": "dapo", "rounds": 3}}},
    "speed": {"continuation": {"train": "continuation"}},
    "nemotron": {"again": {"profile_every": 2}},
    "adarft": {MEASURED: {"multiplier": 2}},
    "pools": {"memory": {"mastered": 1, "retest": 0.3}},
    "knapsack": {
        "readout": {"judge": "readout"},
        "direct": {"judge": "direct"},
        "filtered": {"filter": "ragen2"},
    },
    "vip": {"rloo": {"estimator": "rloo"}, "readout": {"judge": "readout"}},
    "ragen2": {"refill": {"keep": 0.5, "rounds": 3}},
}
"""Knobs that take another way through a method, by a name for them."""

FLOORED = [
    *("uniform", "metis", "mopps", "dapo", "vcrl", "speed", "adcl", "sec", "pools"),
    "knapsack",
]
FLOOR = "floor"
"""The variant with floors, of methods that act at different times."""

GUESTS = ["own_curriculum:Remember", *os.environ.get("METIS_CURRICULUM", "").split()]
"""Curricula of one's own that obey the laws too: the example, and those named from outside."""


def variants():
    """Every curriculum with every preset, none being the defaults, and with other knobs."""
    for name in [*CURRICULA, *GUESTS]:
        floored = [FLOOR] * (name in FLOORED)
        for variant in [*(presets(name) or {"": {}}), *VARIANTS.get(name, {}), *floored]:
            yield name, variant


def section(name, variant=""):
    """The settings of a curriculum small enough for a test."""
    knobs = {} if variant in ("paper", "readout") else PREPARED.get(name, {})
    if variant in presets(name):
        knobs = {"preset": variant, **knobs}
    else:
        knobs = {**knobs, **VARIANTS.get(name, {}).get(variant, {})}
    if variant == FLOOR:
        knobs = {**knobs, "floors": {"prompts": 2, "categories": 0.5}}
    return {"name": name, **knobs}


def make(name, variant="", batch=BATCH):
    """A curriculum small enough for a test."""
    return curriculum_of(section(name, variant), batch, ROLLOUTS)


def given(prompts, variant):
    """The prompts as the data of a variant has them."""
    return [replace(p, difficulty=None) if variant == MEASURED else p for p in prompts]


def run(curriculum, engine, pool, steps, start=0, total=12, through=None):
    """The batches of some steps, each trained on; `through` passes requests on to the engine."""
    batches = []
    for step in range(start, start + steps):
        progress = Progress(step, step / total, engine.version)
        batch = drive(curriculum.step(pool, progress), through or engine)
        if batch.groups:
            engine.update(batch)
        batches.append(batch)
    return batches


def check(batch, pool, size=BATCH):
    """Check the laws that hold for every batch."""
    ids = [group.prompt.id for group in batch.groups]
    assert len(ids) == len(set(ids)) <= size
    assert all(prompt_id in pool for prompt_id in ids)
    assert {row.prompt.id for row in batch.judgments if not row.key} <= set(ids)
    assert all(row.prompt.id in pool for row in batch.judgments)
    assert all(math.isfinite(row.advantage * row.weight) for row in batch.judgments)
    for key, value in batch.metrics.items():
        assert re.fullmatch(r"[a-z0-9_]+/[a-z0-9_.]+", key), key
        assert isinstance(value, float) and math.isfinite(value), key
    considered = [decision.prompt.id for decision in batch.decisions]
    assert len(considered) == len(set(considered))
    for decision in batch.decisions:
        assert decision.propensity is None or 0.0 <= decision.propensity <= 1.0 + 1e-9


def check_explained(name, batch):
    """docs/metrics.md has what a curriculum writes, as its own; a guest may have others."""
    if name not in CURRICULA:
        return
    for key in batch.metrics:
        found = metric_entry(key)
        own = found and (re.search(rf"\b{name}\b", found.by) or found.by.startswith("any"))
        assert own, f"{key} is in no table as {name}'s"
    for decision in batch.decisions:
        assert reason(decision.reason), f"{decision.reason!r} is in no table"


def summarise(batches):
    """All that two runs have to agree on."""
    return [
        (
            [(group.prompt.id, group.rewards) for group in batch.groups],
            [t.tokens.tolist() for group in batch.groups for t in group.trajectories],
            [(row.prompt.id, row.advantage, row.weight) for row in batch.judgments],
            json.dumps(dict(batch.metrics)),
            batch.decisions,
            batch.notices,
            batch.exemplars,
        )
        for batch in batches
    ]
