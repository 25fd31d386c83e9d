"""What is typed is found as words of the index, and as it stands where that is not enough."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.view.browse import search
from metis.view.browse.database import WORDS


@pytest.mark.parametrize(
    ("query", "words", "whole"),
    [
        ("carry", '"carry"*', [True]),
        ("the Carry", '"the" AND "Carry"*', [True, True]),
        ("42 4242", '"42" AND "4242"', [True, True]),
        ('"carry once"', '"carry" AND "once"*', [False]),
        (r"\boxed{42}", '"boxed" AND "42"', [False]),
        ("x_1", '"x" AND "1"', [False]),
        ("=", "", [False]),
        ("答案", "", [False]),
        ('"', "", []),
        ("  ", "", []),
        ('OR" NEAR(a', '"OR"* AND "NEAR"* AND "a"*', [False, False, True]),
    ],
)
def test_words_of_a_query(query, words, whole):
    terms = search.terms(query)
    if query.startswith("OR"):
        assert search.match(terms).count('"') % 2 == 0
        return
    assert search.match(terms) == words
    assert [term.whole for term in terms] == whole


@pytest.mark.parametrize(
    ("query", "text", "fits"),
    [
        ("carry", "so CARRY on", True),
        ("arry", "so carry on", False),
        ("carr", "so carry on", True),
        ("car", "so carry on", False),
        ("42", "so 420", False),
        ('"carry one"', "carry\n  one", True),
        ('"carry one"', "one carry", False),
        (r"\boxed{4}", r"so \boxed{4}", True),
        (r"\boxed{4}", r"so \boxed{44}", False),
        ("42", "答案是42。", True),
        ("案是", "答案是42。", True),
        ("a.c", "abc", False),
    ],
)
def test_texts_that_fit(query, text, fits):
    assert search.fits(search.terms(query), text) is fits


def test_a_snippet_is_around_the_first_hit_and_counts_as_a_browser_does():
    text = "x" * 500 + " 😀 sum, and a sum " + "y" * 500
    shown, hits = search.snippet(search.terms("sum"), text)
    assert len(shown) <= search.LONGEST
    units = shown.encode("utf-16-le")
    assert [units[2 * a : 2 * b].decode("utf-16-le") for a, b in hits] == ["sum", "sum"]
    assert search.snippet((), "whole text") == ("whole text", [])


TEXTS = st.text(alphabet=st.sampled_from("ab1é_ß.\\\"' \n答\u0301İ😀"), max_size=30)


@given(TEXTS, TEXTS)
def test_what_fits_a_text_is_never_missed_by_the_index(query, text):
    """The words of the index are necessary: of texts that fit a query, it has all."""
    if "\u0301" in query + text or "İ" in query + text:
        return  # marks and letters that fold in several ways
    terms = search.terms(query)
    database = sqlite3.connect(":memory:")
    database.execute(WORDS)
    database.execute("INSERT INTO words (rowid, text) VALUES (1, ?)", (search.indexed(text),))
    if search.fits(terms, text) and (words := search.match(terms)):
        assert database.execute("SELECT 1 FROM words WHERE words MATCH ?", (words,)).fetchone()
    database.close()
