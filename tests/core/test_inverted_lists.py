"""Places that have some terms, by distance: lists of terms and brute force agree."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share

from stqsh.core.kernels.index.inverted_lists import (
    SearchCentres,
    TermSearch,
    build_lists,
    list_lengths,
    search_distances,
    search_within,
)
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import pool_of
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.term_table import TermTable

WORDS = "abcdef"
ordinates = st.integers(-3, 3).map(float)
posts = st.tuples(ordinates, ordinates, st.one_of(st.none(), st.lists(st.sampled_from(WORDS), max_size=5)))
asking = st.tuples(
    st.one_of(ordinates, st.just(math.nan)),
    ordinates,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([0.0, 1.0, 2.5, math.inf]),
    st.integers(1, 6),
)


def satisfied(words, every, text):
    if text is None:
        return False
    return set(words) <= set(text) if every else bool(set(words) & set(text))


@share(3)
@given(st.lists(posts, max_size=25), st.lists(asking, min_size=1, max_size=8))
def test_places_with_terms_are_those_of_brute_force(some, queries):
    state = SlotState.fresh(0)
    terms = TermTable(state, 1)
    index = KeywordIndex(state, "s1/nearest/keywords", terms)
    index.add(np.arange(len(queries)), [" ".join(q[2]) for q in queries], [q[3] for q in queries])
    said = pa.array([None if text is None else " ".join(text) for _, _, text in some], pa.string())
    code = np.where(said.is_valid(), pool_of(state, 1).intern(said), -1).astype(np.int32)
    terms.learn(code)
    x, y = (np.array([place[i] for place in some], np.float64) for i in range(2))
    lists = build_lists(x, y, code, terms.spans, np.ones(len(terms), np.bool_))
    search = TermSearch(index.asked, lists, terms.spans, True)
    rows = np.arange(len(queries))
    centres = SearchCentres(rows, *(np.array([q[i] for q in queries], np.float64) for i in range(2)))
    room = int(list_lengths(index.asked, rows, lists.start).sum())
    radius, want = (np.array([q[i] for q in queries]) for i in (4, 5))
    far = [
        sorted(
            (math.hypot(px - qx, py - qy), i)
            for i, (px, py, text) in enumerate(some)
            if satisfied(words, every, text) and not math.isnan(qx)
        )
        for qx, qy, words, every, _, _ in queries
    ]
    found = list(
        zip(*(column.tolist() for column in search_within(centres, radius, search, room)), strict=True)
    )
    assert len(found) == len(set(found))
    assert set(found) == {(q, i) for q, ones in enumerate(far) for d, i in ones if d <= radius[q]}
    wanted = [
        0.0 if math.isnan(q[0]) else ones[q[5] - 1][0] if len(ones) >= q[5] else math.inf
        for q, ones in zip(queries, far, strict=True)
    ]
    np.testing.assert_allclose(search_distances(centres, want, search, room), wanted)
