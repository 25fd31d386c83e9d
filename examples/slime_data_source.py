"""A curriculum in slime (THUDM): a data source that proposes, and a dynamic filter that observes.

--data-source-path slime_data_source.CurriculumDataSource
--dynamic-sampling-filter-path slime_data_source.observe

Checked against the sources of slime at 624b824a and miles at 31f1ca96 (21 August 2026; for miles
write `miles` for `slime` in the import). Not run in training. slime's fully asynchronous rollouts
call no filter, so there it would observe nothing.
"""

import copy
import pickle
from collections import deque
from pathlib import Path

from slime.rollout.data_source import RolloutDataSource, RolloutDataSourceWithBuffer

import metis


class Proposed(RolloutDataSource):
    latest = None  # the data source of this process, for the filter

    def __init__(self, args):
        super().__init__(args)
        self.samples = self.dataset.origin_samples
        self.selector = metis.Selector(
            [{"prompt": sample.prompt} for sample in self.samples],
            "mopps",
            batch=args.rollout_batch_size,
            group=args.n_samples_per_prompt,
            steps=args.num_rollout or 500,
            seed=args.rollout_seed,
        )
        self.picks = deque()
        Proposed.latest = self

    def get_samples(self, num_samples):
        while len(self.picks) < num_samples:
            self.picks.extend(self.selector.propose())
        return [self.group(self.picks.popleft()) for _ in range(num_samples)]

    def group(self, pick):
        if pick.n != self.args.n_samples_per_prompt:
            raise ValueError(f"slime's groups have one size, not {pick.n}: use mopps, for instance")
        group = [copy.deepcopy(self.samples[int(pick.key)]) for _ in range(pick.n)]
        for sample in group:
            sample.metadata["metis_pick"] = pick.id
            sample.group_index, sample.index = self.sample_group_index, self.sample_index
            self.sample_index += 1
        self.sample_group_index += 1
        return group

    def save(self, rollout_id):
        super().save(rollout_id)
        path = Path(self.args.save) / f"rollout/selector_{rollout_id}.pickle"
        path.write_bytes(pickle.dumps(self.selector.state_dict()))

    def load(self, rollout_id=None):
        super().load(rollout_id)
        path = Path(self.args.load or "") / f"rollout/selector_{rollout_id}.pickle"
        if path.exists():
            self.selector.load_state_dict(pickle.loads(path.read_bytes()))
            self.picks = deque(self.selector.outstanding)  # to be rolled out again


class CurriculumDataSource(RolloutDataSourceWithBuffer, Proposed):
    """Groups that were aborted come first, from slime's buffer, then what is proposed."""


def observe(args, samples, **_):
    """Whether a group is trained on: for `dapo`, `greso` and the like slime refills the batch."""
    rewards = [None if s.reward is None else s.get_reward_value(args) for s in samples]
    return Proposed.latest.selector.observe(samples[0].metadata["metis_pick"], rewards)
