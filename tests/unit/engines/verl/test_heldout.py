"""Results of verl's validation, by prompt and by benchmark."""

from metis.engines.verl.heldout import Heldout

KEYS = [("metis/aime24", "a"), ("metis/aime24", "a"), ("metis/aime24", "b"), ("other", "c")]


def test_answers_are_averaged_by_prompt_and_failed_ones_earn_nothing():
    asked = {("metis/aime24", "a"): 2, ("metis/aime24", "b"): 2, ("other", "c"): 1}
    asked[("other", "all of whose answers failed")] = 1
    found = Heldout(KEYS, {"reward": [9, 9, 9, 9], "acc": [1.0, 0.0, True, None]}, asked)
    assert found.by_source() == {"aime24": [0.5, 0.5], "other": [0.0, 0.0]}
    assert found.by_prompt() == {}


def test_a_reward_function_may_name_the_prompts():
    answers = {"reward": [1.0, 0.0, 1.0, 0.5], "prompt": ["p1", "p1", "p2", None]}
    assert Heldout(KEYS, answers, None).by_prompt() == {"p1": 0.5, "p2": 1.0}


def test_a_single_source_has_no_name():
    found = Heldout(KEYS[:3], {"reward": [1.0, 1.0, 0.0]}, None)
    assert found.by_source() == {"": [1.0, 0.0]}
