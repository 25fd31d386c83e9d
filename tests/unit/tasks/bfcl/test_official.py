"""The official checker of bfcl-eval, and ours: equal verdicts on right and wrong trajectories."""

import random

import pytest

import bfcl_package
from bfcl_package import play, solved, verdict, without_withholding
from metis.prepare import bfcl_sets

bfcl_package.require()

SOUND = ("base", "miss_func", "miss_param", "long_context")


def perturbations(dialogue, rng):
    """The ground truth, changed in one way each."""
    truth = [list(turn) for turn in dialogue.truth]
    acting = [number for number, turn in enumerate(truth) if turn]
    place = rng.choice(acting)

    def steps(turns):
        return [[turn] if turn else [] for turn in turns]

    def changed(number, turn):
        return steps([turn if at == number else old for at, old in enumerate(truth)])

    dropped = truth[place][:]
    dropped.pop(rng.randrange(len(dropped)))
    yield "a call dropped", changed(place, dropped)
    yield "the last turn dropped", changed(acting[-1], [])
    yield "a call repeated", changed(place, truth[place] + truth[place][-1:])
    yield "reversed", changed(place, truth[place][::-1])
    yield "no calls", steps([[] for _ in truth])
    yield "one step a call", [[[call] for call in turn] for turn in truth]
    other = rng.choice(acting)
    mixed = [truth[other] if at == place else turn for at, turn in enumerate(truth)]
    yield "another turn's calls", steps(mixed)
    yield "a wrong argument", changed(place, [_other_value(call) for call in truth[place]])
    yield "an unknown function", changed(place, [*truth[place], "no_such_function(x=1)"])
    idle = [turn or ["logout()"] for turn in truth]
    yield "calls on every turn", steps(idle)
    everything = [call for turn in truth for call in turn]
    early = [everything if at == 0 else [] for at in range(len(truth))]
    yield "everything at once", steps(early)


def _other_value(call):
    """The call with another string or number."""
    for old, new in (("'", "'x"), ("=1", "=2"), ("=True", "=False")):
        if old in call:
            return call.replace(old, new, 1) if old != "'" else _quoted(call)
    return call


def _quoted(call):
    first = call.index("'")
    return call[: first + 1] + "x" + call[first + 1 :]


@pytest.mark.parametrize("category", SOUND)
def test_every_ground_truth_earns_all_and_the_official_checker_agrees(category):
    for dialogue in bfcl_sets.official(category):
        episode = play(dialogue, solved(dialogue))
        assert episode.reward() == {"score": 1.0, "official": 1.0, "turns": 1.0}, dialogue.id
        assert verdict(dialogue, solved(dialogue)), dialogue.id


def test_the_rebuilt_composite_can_be_solved():
    for dialogue in bfcl_sets.every("rebuilt")["composite"]:
        assert play(dialogue, solved(dialogue)).reward()["score"] == 1.0, dialogue.id
        assert verdict(dialogue, solved(dialogue)), dialogue.id


def test_verdicts_on_perturbed_trajectories_are_equal():
    """All kinds on a quarter of the dialogues: over 2,000 trajectories."""
    rng, count, right = random.Random(0), 0, 0
    for category in SOUND:
        for dialogue in bfcl_sets.official(category)[::4]:
            for kind, turns in perturbations(dialogue, rng):
                ours = play(without_withholding(dialogue), turns).record.valid
                assert ours == verdict(dialogue, turns), (dialogue.id, kind)
                count, right = count + 1, right + ours
    assert count >= 2000 and 0.1 < right / count < 0.9
