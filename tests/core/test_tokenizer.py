"""Texts split into terms as the language says, whole columns at a time."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.texts.tokenizer import _MANY, contains, tokens

texts = st.lists(st.one_of(st.none(), st.text(max_size=12), st.text("aAbB éÉ1,", max_size=12)), max_size=12)


def lower(character):
    """One code point for one, as Unicode's simple mapping has it."""
    return "i" if character == "İ" else character.lower()


def terms_of(text):
    """The distinct terms of a text, in order, without a regular expression."""
    words, word = [], ""
    for character in (text or "") + " ":
        if unicodedata.category(character)[0] in "LN":
            word += lower(character)
        elif word:
            words, word = [*words, word], ""
    return list(dict.fromkeys(words))


def split(some):
    offsets, terms = tokens(pa.array(some, pa.string()))
    terms = terms.to_pylist()
    return [terms[a:b] for a, b in pairwise(offsets)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (None, []),
        (" -- ", []),
        ("Pothole", ["pothole"]),
        ("the cat, THE dog; the cat", ["the", "cat", "dog"]),
        ("No.3/17 won't", ["no", "3", "17", "won", "t"]),
        ("naïve_ΑΘΗΝΑ 北京 ٣٤ x²", ["naïve", "αθηνα", "北京", "٣٤", "x²"]),
    ],
)
def test_terms_are_runs_of_letters_and_digits_in_lower_case(text, terms):
    assert split([text]) == [terms]


@given(texts)
def test_each_text_has_its_own_distinct_terms(some):
    # Unassigned and newly assigned code points may be letters to the one table and not to the other.
    known = [
        text for text in some if not any(unicodedata.category(c) in ("Cn", "Co", "Cs") for c in text or "")
    ]
    assert split(known) == [terms_of(text) for text in known]


def test_a_slice_of_a_column_is_split_alone():
    offsets, terms = tokens(pa.array(["a", "b c", None, "d"]).slice(1, 2))
    assert offsets.tolist() == [0, 2, 2]
    assert terms.to_pylist() == ["b", "c"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, "", "a", "b a", "A-b c", "ab"]), st.sampled_from(["a", "B", "a b", "c, a"])
        )
    )
)
@pytest.mark.parametrize("how", ["all", "any"])
def test_contains_looks_for_the_terms_of_each_phrase(how, pairs):
    column, phrases = ([pair[i] for pair in pairs] for i in range(2))
    quantifier = {"all": all, "any": any}[how]
    want = [
        None if text is None else quantifier(term in terms_of(text) for term in terms_of(phrase))
        for text, phrase in pairs
    ]
    assert contains(pa.array(column, pa.string()), pa.array(phrases, pa.string()), how).to_pylist() == want


@given(texts.filter(bool), st.one_of(st.text("aAbB éÉ1,", max_size=6), st.text(max_size=3)))
@pytest.mark.parametrize("how", ["all", "any"])
def test_one_phrase_is_found_in_many_texts_as_in_each(how, some, phrase):
    column = pa.array(some * (_MANY // len(some) + 1), pa.string())
    each = contains(column, pa.array([phrase] * len(column)), how)
    assert contains(column, pa.scalar(phrase), how).equals(each)


def test_one_phrase_or_one_text_may_stand_for_many():
    column = pa.array(["a b", "b", None])
    assert contains(column, pa.scalar("a"), "all").to_pylist() == [True, False, None]
    assert contains(pa.scalar("a b"), pa.array(["a", "c"]), "all").to_pylist() == [True, False]
    assert contains(pa.scalar(None, pa.string()), pa.array(["a", "c"]), "all").to_pylist() == [None, None]
