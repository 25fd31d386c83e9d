"""The rule that a person would write for sums: of m*B candidates, train on the fewest digits."""

from dataclasses import dataclass

from metis.core import Batch, Plan, Progress, rollout
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.signal import top_b


@dataclass
class FewestDigits(Stateful):
    """Takes the candidates with the fewest digits; nothing is predicted and nothing is learnt."""

    batch: int = 16
    group: int = 8
    multiplier: int = 8

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        candidates = pool.sample(self.multiplier * self.batch)
        digits = [sum(map(str.isdigit, prompt.text)) for prompt in candidates]
        chosen = top_b([-count for count in digits], self.batch, progress.rng("ties"))
        return Batch((yield from rollout([candidates[i] for i in chosen], self.group)))
