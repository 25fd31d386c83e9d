"""A curriculum of one's own: prefer prompts whose rollouts disagreed when they were last seen."""

from dataclasses import dataclass, field

from metis import Batch, Progress, drive
from metis.core import Stateful, rollout
from metis.curricula import CURRICULA
from metis.engines.simulated import Simulation, build_simulation
from metis.signal import top_b


@dataclass
class Remember(Stateful):
    """Takes the candidates that varied most when last seen; new ones count as `hope`."""

    batch: int = 32
    group: int = 8
    multiplier: int = 8
    hope: float = 0.15

    seen: dict[str, float] = field(init=False, default_factory=dict)

    def step(self, pool, progress):
        candidates = pool.sample(self.multiplier * self.batch)
        scores = [self.seen.get(prompt.id, self.hope) for prompt in candidates]
        chosen = top_b(scores, self.batch, progress.rng("ties"))
        groups = yield from rollout([candidates[i] for i in chosen], self.group)
        self.seen |= {g.prompt.id: g.variance for g in groups if g.variance is not None}
        return Batch(groups, metrics={"select/seen": float(len(self.seen))})


if __name__ == "__main__":
    for curriculum in (CURRICULA["uniform"](batch=32), Remember()):
        engine, pool = build_simulation(Simulation(), seed=0)
        for step in range(200):
            engine.update(drive(curriculum.step(pool, Progress(step)), engine))
        accuracy = sum(chance for _, chance in engine.evaluate()) / engine.simulation.heldout
        print(f"{type(curriculum).__name__:8}  held-out accuracy {accuracy:.3f} after 200 steps")
