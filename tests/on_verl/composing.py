"""verl's configuration, as its command line would compose it."""

from hydra import compose, initialize_config_module


def composed(words):
    with initialize_config_module("metis.engines.verl.config", version_base=None):
        return compose("metis_trainer", words)
