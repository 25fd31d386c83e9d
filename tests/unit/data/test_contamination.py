"""Training problems that count as copies of an evaluation problem, and some that do not."""

from hypothesis import given
from hypothesis import strategies as st

from metis.data.contamination import PHRASE, N, find
from metis.data.wording import words

CUBE = (
    "A cube with edge length 12 is painted red and cut into unit cubes, of which one is drawn at "
    "random and rolled once. What is the probability that its top face is red?"
)
SPHERE = (
    "Three spheres of radii 1, 2 and 3 rest on a table so that each touches the other two; find "
    "the area of the triangle formed by the points in which they touch the table."
)
TOKEN = st.sampled_from(["a", "b", "c", "1", "2", "+", "-", "x", "求"])


def test_wording_ignores_typography_and_nothing_else():
    same = ["$\\left(x+\\dfrac{1}{2}\\right)^2$", "(x + \\frac12)^{2}", " ( X+\\tfrac 1 2 ) ^ 2 ."]
    different = ["(x - \\frac12)^2", "(x + \\frac13)^2", "(y + \\frac12)^2", "(x + 2)^2"]
    assert len({words(text) for text in same}) == 1
    assert len({words(text) for text in (same[0], *different)}) == 1 + len(different)
    assert words("[asy] draw((0,0)); [/asy] Find $AB$.") == ("find", "ab")
    assert words("求 $2+3$ 的值") == ("求", "2", "+", "3", "的", "值")
    assert words("leftover \\leftarrow") == ("leftover", "leftarrow")


@given(st.text(st.characters(codec="utf-8")))
def test_wording_is_its_own_wording(text):
    assert words(" ".join(words(text))) == words(text)


def test_copies_are_found_however_they_are_set():
    copy = CUBE.replace("12", "$12$").upper()
    asked = CUBE.replace("What is the", "The") + " Write it as $m/n$ and give $m+n$."
    found = find([SPHERE, CUBE, copy, asked], {"cube": CUBE})
    assert {index: match.evaluation for index, match in found.items()} == dict.fromkeys(
        (1, 2, 3), "cube"
    )
    assert found[1].share == found[2].share == 1.0 and 0.5 <= found[3].share < 1.0


def test_other_problems_on_the_same_theme_are_not():
    other = "A cube with edge length 12 is painted blue. How many of its unit cubes are blue?"
    assert find([other, SPHERE], {"cube": CUBE}) == {}
    assert find([], {"cube": CUBE}) == find([CUBE], {}) == {}


def test_short_problems_are_found_by_equality_only():
    assert set(find(["Expand $(x+5)^2$", "Expand $(x-5)^2$"], {"e": "expand (x + 5)^{2}."})) == {0}


def test_a_phrase_of_many_problems_is_no_trace():
    phrase = "can be expressed as m over n where m and n are relatively prime positive integers"
    evaluation = {"e": f"The area {phrase}."}
    pool = [f"Quantity number {number} {phrase}." for number in range(PHRASE + 1)]
    assert set(find(pool[:PHRASE], evaluation)) == set(range(PHRASE))
    assert find(pool, evaluation) == {}


def test_many_variants_of_a_problem_do_not_hide_each_other():
    edges = [CUBE.replace("12", str(edge)) for edge in range(20, 20 + 3 * PHRASE)]
    asked = [CUBE.replace("that its top", f"that its {side}") for side in "abcdefgh"]
    for variants in (edges, asked):
        assert len(variants) > PHRASE
        assert set(find([SPHERE, *variants], {"cube": CUBE})) == set(range(1, len(variants) + 1))


def test_a_common_form_of_the_answer_is_no_trace():
    form = "Enter your answer in the form r, theta where r is positive and theta is at most 360."
    stories = [f"Story {i} about point {i} and {i} others. {form}" for i in range(PHRASE + 1)]
    assert find(stories, {"e": f"Convert the point 3 to polar coordinates. {form}"}) == {}


def test_problems_without_words_are_never_copies():
    assert find(["???", ""], {"e": "!!!"}) == {}


@given(st.lists(st.lists(TOKEN, max_size=2 * N).map(" ".join), max_size=6), st.data())
def test_every_equal_problem_is_found_and_no_share_is_out_of_range(texts, data):
    evaluation = {str(index): text for index, text in enumerate(texts)}
    training = data.draw(st.lists(st.sampled_from(texts), max_size=6)) if texts else []
    found = find(training, evaluation)
    assert set(found) == {index for index, text in enumerate(training) if words(text)}
    assert all(match.share == 1.0 for match in found.values())
    strangers = data.draw(st.lists(st.lists(TOKEN).map(" ".join), max_size=6))
    assert all(0.5 <= match.share <= 1.0 for match in find(strangers, evaluation).values())
