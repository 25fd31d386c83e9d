"""Results of verl's validation, by prompt and by benchmark."""

import math

from metis.engines.verl.heldout import Answers, Heldout

KEYS = [("metis/aime24", "a"), ("metis/aime24", "a"), ("metis/aime24", "b"), ("other", "c")]


def answers(keys=KEYS, **infos):
    sources, uids = zip(*keys, strict=True)
    return Answers(sources, uids, infos, list(range(len(keys))))


def test_answers_are_averaged_by_prompt_and_failed_ones_earn_nothing():
    asked = {("metis/aime24", "a"): 2, ("metis/aime24", "b"): 2, ("other", "c"): 1}
    asked[("other", "all of whose answers failed")] = 1
    found = Heldout(answers(reward=[9, 9, 9, 9], acc=[1.0, 0.0, True, None]), asked, {})
    assert found.by_source() == {"aime24": [0.5, 0.5], "other": [0.0, 0.0]}
    assert found.failures() == {"eval/failed": 2.0}
    assert found.by_prompt() == {}


def test_prompts_are_named_as_far_as_they_are_known():
    found = Heldout(answers(reward=[1.0, 0.0, 1.0, 0.5]), None, {"a": "p1", "b": "p2"})
    assert found.by_prompt() == {"p1": 0.5, "p2": 1.0}
    assert found.failures() == {}


def test_a_single_source_has_no_name():
    found = Heldout(answers(KEYS[:3], reward=[1.0, 1.0, 0.0]), None, {})
    assert found.by_source() == {"": [1.0, 0.0]}


def test_failed_answers_are_left_out_with_all_that_belongs_to_them():
    valid = answers(reward=[1.0, math.nan, 0.0, math.nan], length=[3, 0, 4, 0]).valid()
    assert list(zip(valid.sources, valid.uids, strict=True)) == [KEYS[0], KEYS[2]]
    assert valid.infos == {"reward": [1.0, 0.0], "length": [3, 4]}
    assert valid.turns == [0, 2]
