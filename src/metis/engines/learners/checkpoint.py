"""Learned models on disk, and back exactly as they were."""

from pathlib import Path

import torch

from metis.engines.learners.learner import Learner
from metis.engines.loading import reading


def save_learner(folder: Path, number: int, learner: Learner) -> None:
    """A learned model beside the policy; numbers tell several apart."""
    torch.save(learner.state_dict(), folder / f"learner-{number}.pt")


def load_learner(folder: Path, number: int, learner: Learner) -> None:
    """Bring back what `save_learner` wrote."""
    path = folder / f"learner-{number}.pt"
    with reading(path):
        saved = torch.load(path, map_location="cpu", weights_only=True)
    learner.load_state_dict(saved)
