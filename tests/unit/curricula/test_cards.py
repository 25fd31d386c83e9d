"""Cards: the labelled parts of a docstring, whatever its line breaks."""

import pytest

from metis.curricula.cards import parse_card

DOCSTRING = """A method: it does
something.

Idea       Do it
           well.
Equation   a = b * c
Acts       before rollouts
Costs      n rollouts
Continuous no difference
Reference  Author et al., arXiv
           2501.00001.
Deviations from the paper:
1. One thing, because
   it is better.
2. Another.
"""


def test_every_part_becomes_one_line():
    card = parse_card(DOCSTRING)
    assert card.summary == "A method: it does something."
    assert (card.idea, card.equation) == ("Do it well.", "a = b * c")
    assert card.acts == "before rollouts"
    assert (card.costs, card.continuous) == ("n rollouts", "no difference")
    assert card.reference == "Author et al., arXiv 2501.00001."
    assert card.note == "from the paper:"
    assert card.deviations == ("One thing, because it is better.", "Another.")


def test_no_deviations_are_said_to_be_none():
    card = parse_card(DOCSTRING.partition("Deviations")[0] + "Deviations none.")
    assert (card.note, card.deviations) == ("none.", ())


@pytest.mark.parametrize(
    "wrong", [DOCSTRING.replace("Costs  ", "Price  "), DOCSTRING + "\nIdea       Twice.", ""]
)
def test_a_missing_or_doubled_part_is_refused(wrong):
    with pytest.raises(ValueError, match="once each"):
        parse_card(wrong)
