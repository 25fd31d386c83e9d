"""The words of the judge's question, against the paper's listings."""

import pytest

from metis.curricula.judges.prompt import single, turns
from metis.curricula.judges.scale import PASSES
from scripted import exemplar

SYSTEM = r"""
You are a predictor that estimates the reward variance for a candidate problem. Reward variance
definition: the variance of the rewards across multiple solution attempts by the current model on
the same problem. High variance means rollouts disagree -- some attempts score well and others
poorly -- which is exactly the regime where GRPO has the strongest learning signal. Low variance
means rollouts agree (the model consistently passes or consistently fails), so there is little
gradient to extract.
{calibration} Output your final prediction inside \boxed{{}}, choosing one number from this exact
list: [0.00, 0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.15, 0.18, 0.20, 0.25]. Example final line:
\boxed{{0.10}}
"""
CALIBRATION = """Calibration: The labeled examples show actual reward variances from recent model
performance. Use them to calibrate your prediction."""

USER = r"""
Predict the reward variance for the next problem. The examples below show actual reward variances
from recent model performance. Use them to calibrate your prediction. Put your final variance
prediction inside \boxed{}.

[Example 1] PROMPT: \"\"\" first \"\"\" REWARD_VARIANCE: 0.000

[Example 2] PROMPT: \"\"\" second \"\"\" REWARD_VARIANCE: 0.109

[Example 3] PROMPT: \"\"\" third \"\"\" REWARD_VARIANCE: 0.250

[Candidate] PROMPT: \"\"\" the candidate \"\"\"
""".replace(r"\"", '"')

USER_WITHOUT_EXAMPLES = r"""
Predict the reward variance for the next problem. Put your final variance prediction inside
\boxed{}. [Candidate] PROMPT: \"\"\" the candidate \"\"\"
""".replace(r"\"", '"')

EXAMPLES = [exemplar("first", 0.0), exemplar("second", 0.109375), exemplar("third", 0.25)]


def collapse(text: str) -> str:
    return " ".join(text.split())


def as_listed(examples):
    system, user = single(["the candidate"], examples)[0]
    assert (system["role"], user["role"]) == ("system", "user")
    return collapse(system["content"]), collapse(user["content"])


def test_the_paper_s_question_is_the_listing_of_the_appendix():
    system, user = as_listed(EXAMPLES)
    assert system == collapse(SYSTEM.format(calibration=CALIBRATION))
    assert user == collapse(USER)


def test_without_examples_it_is_the_listing_without_evidence():
    system, user = as_listed([])
    assert system == collapse(SYSTEM.format(calibration=""))
    assert user == collapse(USER_WITHOUT_EXAMPLES)


def test_quotes_stand_on_their_own_lines():
    [[_, user]] = single(["a\nb"], [])
    assert user["content"].endswith('[Candidate]\nPROMPT:\n"""\na\nb\n"""')


def test_turns_show_examples_as_answered_chats():
    [chat] = turns(["the candidate"], EXAMPLES)
    assert [m["role"] for m in chat] == ["system", *["user", "assistant"] * 3, "user"]
    assert [m["content"] for m in chat[2::2]] == [r"\boxed{0.00}", r"\boxed{0.10}", r"\boxed{0.25}"]
    assert "the candidate" in chat[-1]["content"]


def test_passes_are_asked_for_and_answered_with_a_digit():
    [chat] = turns(["the candidate"], [exemplar("one", 2.6)], PASSES)
    assert [message["content"] for message in chat if message["role"] == "assistant"] == ["3"]
    [[system, _]] = turns(["the candidate"], [], PASSES)
    assert "boxed" not in system["content"] and "8" in system["content"]


@pytest.mark.parametrize("chats", [single, turns])
def test_all_chats_of_a_step_share_everything_before_the_candidate(chats):
    first, second = chats(["one", "two"], EXAMPLES)
    assert first[:-1] == second[:-1]
    before = first[-1]["content"].removesuffix('one\n"""')
    assert second[-1]["content"] == before + 'two\n"""'


def test_prompt_texts_are_not_templates():
    [[_, user]] = single(["$text {x} ${title}"], [])
    assert "$text {x} ${title}" in user["content"]
