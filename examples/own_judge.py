"""A judge of one's own: the variance that prompts of about this length have had so far."""

from dataclasses import dataclass, field

from metis import Progress, drive
from metis.core.state import Stateful
from metis.curricula.judges import Judge, Lesson, Prediction, Predictions
from metis.curricula.metis import Metis
from metis.engines.simulated import Simulation, build_simulation


@dataclass
class ByLength(Stateful, Judge[Predictions]):
    """The mean variance of earlier prompts of the same length; new ones have `hope`."""

    hope: float = 0.15

    seen: dict[str, list[float]] = field(init=False, default_factory=dict)

    def predict(self, candidates, batch, pool, progress):
        yield from ()  # it asks nothing of the model
        v_hats = [self.expected(prompt) for prompt in candidates]
        return Predictions([Prediction(p, v, v) for p, v in zip(candidates, v_hats, strict=True)])

    def expected(self, prompt):
        total, count = self.seen.get(str(len(prompt.text)), (0.0, 0.0))
        return (total + self.hope) / (count + 1)

    def learn(self, predictions, groups, pool, progress):
        for group in groups:
            if group.variance is not None:
                total, count = self.seen.get(str(len(group.prompt.text)), (0.0, 0.0))
                self.seen[str(len(group.prompt.text))] = [total + group.variance, count + 1]
        return Lesson()


if __name__ == "__main__":
    curriculum = Metis(batch=32, judge=ByLength())
    engine, pool = build_simulation(Simulation(), seed=0)
    for step in range(100):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
        engine.update(batch)
    lift = batch.metrics.get("judge/realised_lift", 0.0)
    print(f"what it chose varied {lift:+.3f} more than uniform slots in the last 16 steps")
