"""METIS's trainer for verl; importing this package registers it."""

from metis.engines.verl.trainer.trainer import MetisTrainer

__all__ = ["MetisTrainer"]
