"""A curriculum in prime-rl (Prime Intellect): a task sampler and its admission gate.

Checked against the source of prime-rl at 559b4477 (21 August 2026). Not run in training. Its
config takes no sampler of one's own: in `orchestrator/train_source.py`, for `Curriculum(...)` write

    MetisCurriculum(env.config.curriculum, tasks, group=env.config.group_size)
"""

from collections import defaultdict, deque

from prime_rl.orchestrator.curriculum import AdmissionGate, Curriculum, TaskSampler

import metis


class MetisSampler(TaskSampler):
    def __init__(self, tasks, curriculum="mopps", **settings):
        self.tasks = {task.key: task for task in tasks}
        rows = [{"id": key, "prompt": text(task)} for key, task in self.tasks.items()]
        self.selector = metis.Selector(rows, curriculum, **settings)
        self.picks = deque()
        self.running = defaultdict(list)  # ids of picks by task
        self.trained = True

    def __next__(self):
        if not self.picks:
            self.picks.extend(self.selector.propose())
        pick = self.picks.popleft()
        self.running[pick.key].append(pick.id)
        return self.tasks[pick.key]

    def observe(self, group):
        traces = [trace for episode in group for trace in episode.traces if trace.agent.trainable]
        rewards = [None if trace.has_error else trace.reward for trace in traces]
        pick = self.running[group[0].task.key].pop()  # the newest: older ones may have been stale
        self.trained = self.selector.observe(pick, rewards)

    def state_dict(self):
        return {"selector": self.selector.state_dict()}

    def load_state_dict(self, state_dict):
        self.selector.load_state_dict(state_dict["selector"])
        self.picks = deque(self.selector.outstanding)  # to be rolled out again
        self.running.clear()

    def metrics(self):
        return self.selector.metrics()


class MetisGate(AdmissionGate):
    """Asked right after the sampler has observed; rejected groups are refilled by prime-rl."""

    def __init__(self, sampler):
        self.sampler = sampler

    def admit(self, group):
        return self.sampler.trained


class MetisCurriculum(Curriculum):
    def __init__(self, config, tasks, group):
        super().__init__(config, tasks)
        self.sampler = MetisSampler(tasks, group=group, rewards="continuous")
        self.gates["metis"] = MetisGate(self.sampler)


def text(task):
    prompt = task.data.prompt
    return prompt if isinstance(prompt, str) else [dict(message) for message in prompt or []]
