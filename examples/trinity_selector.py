"""A curriculum in Trinity-RFT: a selector of tasks, named by its import path.

buffer.explorer_input.tasksets:
  - task_selector:
      selector_type: trinity_selector.CurriculumSelector
      kwargs: {column: question, curriculum: mopps, batch: 32, group: 8}
data_processor.experience_pipeline.operators:
  - name: pass_rate_calculator

`batch` is that of the buffer, `group` is `algorithm.repeat_times`. All that Trinity feeds back is a
group's mean reward, so rewards have to be 0 or 1. Checked against the source of Trinity-RFT at
60db8e5a (28 January 2026). Not run in training.
"""

import base64
import pickle
from collections import defaultdict, deque

from trinity.buffer.selector import BaseSelector

import metis


class CurriculumSelector(BaseSelector):
    def __init__(self, data_source, config):
        super().__init__(data_source, config)
        settings = dict(config.kwargs)
        texts = list(data_source.dataset[settings.pop("column")])
        self.selector = metis.Selector(texts, seed=config.seed, **settings)
        self.picks = deque()
        self.running = defaultdict(list)  # picks by index
        self.read = 0

    def get_indices(self, batch_size, return_extra_info=False):
        while len(self.picks) < batch_size:
            self.picks.extend(self.selector.propose())
        taken = [self.picks.popleft() for _ in range(batch_size)]
        for pick in taken:
            self.running[int(pick.key)].append(pick)
        self.read += batch_size
        indices = [int(pick.key) for pick in taken]
        return (indices, {}) if return_extra_info else indices

    def feedback(self, indices, values):
        for index, mean in zip(indices, values, strict=True):
            if self.running[index]:
                pick = self.running[index].pop()
                right = round(mean * pick.n)
                self.selector.observe(pick.id, [1.0] * right + [0.0] * (pick.n - right))

    def state_dict(self):
        saved = base64.b64encode(pickle.dumps(self.selector.state_dict())).decode()
        return {"current_index": self.read, "selector": saved}

    def load_state_dict(self, state_dict):
        self.read = state_dict["current_index"]
        if "selector" in state_dict:  # not so when training begins
            self.selector.load_state_dict(pickle.loads(base64.b64decode(state_dict["selector"])))
            self.picks = deque(self.selector.outstanding)  # to be rolled out again
