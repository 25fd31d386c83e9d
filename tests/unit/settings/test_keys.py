"""Words of other trainers lead to settings that exist."""

from metis.engines import ENGINES
from metis.settings.keys import SETTINGS, dotted_names
from metis.settings.training import Checkpoints, RunSettings


def test_every_setting_exists_and_no_word_is_one():
    known = {*dotted_names(RunSettings, ""), *dotted_names(Checkpoints, "checkpoints.")}
    for engine in ENGINES.values():
        known |= set(dotted_names(engine.settings, "engine."))
    assert set(SETTINGS) <= known
    words = [word for words in SETTINGS.values() for word in words]
    assert len(set(words)) == len(words)
    assert not {key.rpartition(".")[2] for key in known} & set(words)
