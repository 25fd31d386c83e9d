"""Checks verl's command line before anything starts, with verl's own validation and ours.

verl itself only validates in its processes, after Ray has started.
"""

import contextlib
import io
from collections.abc import Iterator, Sequence

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from metis.core.needs import Needs
from metis.engines.verl import checkpoints
from metis.engines.verl.launch import checks, packing
from metis.errors import MetisError


def check_command(words: Sequence[str], needs: Needs) -> None:
    """Refuse settings that verl or our trainer would refuse at start."""
    with _refused("does not take these settings"):
        with initialize_config_module("metis.engines.verl.config", version_base=None):
            config = compose("metis_trainer", list(words))
        OmegaConf.resolve(config)
    checks.check_config(config)
    checks.check_needs(config, needs)
    packing.check_on_disk(config, needs)
    checkpoints.check_resuming(config.trainer)
    with _refused("refuses this configuration"), contextlib.redirect_stdout(io.StringIO()):
        validate_config(config, need_reference_policy(config), need_critic(config))
        omega_conf_to_dataclass(config.actor_rollout_ref.rollout)


@contextlib.contextmanager
def _refused(how: str) -> Iterator[None]:
    """Turn any error of Hydra or verl into a MetisError."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MetisError(f"engine.overrides: verl {how}: {reason}") from None
