"""CH-trees find what a test of all queries finds, keep the limit, and are lazy about dropped queries."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import times

from stqsh.arrays import Array
from stqsh.core.indexes import ch_trees
from stqsh.core.indexes.ch_trees import ChTreeIndex, IndexedRecords, SoughtPredicates, digests
from stqsh.core.indexes.quad_shape import grow_quad, quad_leaves
from stqsh.core.kernels.index.ch_trees import PLACE, VALUES, WORDS
from stqsh.core.kernels.text.term_sets import TermSpans
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import derived
from stqsh.core.texts.query_terms import offsets

WORDS_ALL, TERMS = 6, 10
"""The first terms are words, and the others are values of a column."""

NOWHERE = np.array([-np.inf, -np.inf, np.inf, np.inf])
PLACES = st.sampled_from([-0.5, 0.0, 0.125, 0.25, 0.3, 0.5, 0.75, 1.0, 1.5])
NUMBERS = st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0, 7.0])


@st.composite
def queries(draw: st.DrawFn, count: int) -> SoughtPredicates:
    boxes, words, every, values, bounds = [], [], [], [], []
    for _ in range(count):
        corners = draw(st.tuples(PLACES, PLACES, PLACES, PLACES))
        low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
        boxes.append(np.append(low, high) if draw(st.booleans()) else NOWHERE)
        words.append(sorted(draw(st.sets(st.integers(0, WORDS_ALL - 1), max_size=3))))
        every.append(draw(st.booleans()))
        values.append(draw(st.sampled_from([-1, -1, *range(WORDS_ALL, TERMS)])))
        ends = sorted(draw(st.tuples(NUMBERS, NUMBERS)))
        ends[0] = ends[0] if draw(st.booleans()) else -np.inf
        bounds.append(ends if draw(st.booleans()) else [-np.inf, np.inf])
    return predicates(np.array(boxes), words, np.array(every), np.array(values), np.array(bounds))


def predicates(
    boxes: Array, words: list[list[int]], every: Array, values: Array, bounds: Array
) -> SoughtPredicates:
    count, flat = len(boxes), np.array([one for some in words for one in some], np.int32)
    ids, owner = np.arange(count), np.repeat(np.arange(count), [*map(len, words)])
    checked = ids % 2 == 0
    digest = digests(count, (owner, flat), (ids, values))
    start = offsets(np.array([*map(len, words)], np.int64))
    values = values.astype(np.int32)[:, None]
    return SoughtPredicates(ids, boxes, start, flat, every, values, bounds[:, None], checked, digest)


@st.composite
def records(draw: st.DrawFn, count: int) -> tuple[IndexedRecords, TermSpans]:
    gone = [draw(st.integers(0, 4)) == 0 for _ in range(count)]
    x, y = (np.array([np.nan if g else draw(PLACES) for g in gone]) for _ in range(2))
    terms = [sorted(draw(st.sets(st.integers(0, WORDS_ALL - 1)))) for _ in range(count)]
    values = np.array([draw(st.integers(WORDS_ALL - 1, TERMS + 2)) for _ in range(count)], np.int32)
    values[values < WORDS_ALL] = -1
    numbers = np.array([draw(st.one_of(NUMBERS, st.just(np.nan))) for _ in range(count)])
    ends = np.cumsum([0, *map(len, terms)]).astype(np.int32)
    codes = np.array([one for some in terms for one in some], np.int32)
    text = np.array([-1 if draw(st.integers(0, 5)) == 0 else i for i in range(count)], np.int32)
    found = IndexedRecords(x, y, text, values[:, None], numbers[:, None])
    return found, TermSpans(ends[:-1].copy(), ends[1:].copy(), codes)


def fits(sought: SoughtPredicates, q: int, some: IndexedRecords, e: int, spans: TermSpans) -> bool:
    """Whether a record is in the box, the interval and the value of a query, and has a word of it."""
    x1, y1, x2, y2 = sought.box[q]
    (low, high), number, value = sought.bounds[q, 0], some.numbers[e, 0], sought.values[q, 0]
    place = x1 <= some.x[e] <= x2 and y1 <= some.y[e] <= y2
    text = some.text[e]
    said = set() if text < 0 else set(spans.codes[spans.begin[text] : spans.end[text]].tolist())
    asked = sought.words[sought.start[q] : sought.start[q + 1]].tolist()
    inside = (low, high) == (-np.inf, np.inf) or low <= number <= high
    return bool(place and inside and value in (-1, some.values[e, 0]) and (not asked or said & {*asked}))


def has_all(sought: SoughtPredicates, q: int, some: IndexedRecords, e: int, spans: TermSpans) -> bool:
    """Whether a record satisfies a query, with all of its words."""
    text = some.text[e]
    said = set() if text < 0 else set(spans.codes[spans.begin[text] : spans.end[text]].tolist())
    asked = set(sought.words[sought.start[q] : sought.start[q + 1]].tolist())
    return fits(sought, q, some, e, spans) and (not sought.every[q] or asked <= said)


SEEN = np.array([5, 4, 4, 3, 9, 1, 2, 2, 8, 1])


@times(2)
@given(data=st.data(), limit=st.sampled_from([3, 20, 1000]), full=st.sampled_from([1, 16]))
def test_trees_find_each_pair_once_and_nothing_that_labels_exclude(
    data: st.DataObject, limit: int, full: int
) -> None:
    sought = data.draw(queries(data.draw(st.integers(1, 40))))
    sample, its = data.draw(records(data.draw(st.integers(0, 8))))
    sample = sample._replace(values=np.minimum(sample.values, TERMS - 1))
    index = ChTreeIndex(SlotState.fresh(0), "s1/trees", limit)
    with mock.patch.object(ch_trees, "_FULL", full), mock.patch.object(ch_trees, "LAZY", 4):
        for _ in range(3):
            there = data.draw(st.sets(st.sampled_from(range(len(sought.id)))))
            box = np.where(np.isin(sought.id, [*there])[:, None], sought.box, np.nan)
            index.fill(sought._replace(box=box), sample, its, SEEN, data.draw(BOUNDS))
            count = data.draw(st.integers(1, 12))
            (old, spans), (new, later) = data.draw(records(count)), data.draw(records(count))
            spans, new = joined(spans, later, new)
            pairs = index.join(old, new, spans)
            found = [*zip(pairs.event.tolist(), pairs.query.tolist(), pairs.flags.tolist(), strict=True)]
            assert len({pair[:2] for pair in found}) == len(found)
            flags = {(e, q): flag for e, q, flag in found}
            for q in range(len(sought.id)):
                for e in range(count):
                    least = [q in there and has_all(sought, q, one, e, spans) for one in (old, new)]
                    most = [q in there and fits(sought, q, one, e, spans) for one in (old, new)]
                    flag = flags.get((e, q), 3 if all(most) and not sought.checked[q] else 0)
                    for bit, needed, possible in zip((1, 2), least, most, strict=True):
                        assert flag & bit or not needed
                        assert possible or not flag & bit


BOUNDS = st.sampled_from([None, (0.0, 0.0, 1.0, 1.0)])


def joined(spans: TermSpans, more: TermSpans, new: IndexedRecords) -> tuple[TermSpans, IndexedRecords]:
    """The terms of two sets of texts, and the records with the second ones."""
    codes = np.concatenate([spans.codes, more.codes])
    begin, end = (
        np.concatenate([one, other + np.int32(len(spans.codes))])
        for one, other in zip(spans[:2], more[:2], strict=True)
    )
    text = np.where(new.text < 0, -1, new.text + len(spans.begin)).astype(np.int32)
    return TermSpans(begin, end, codes), new._replace(text=text)


def _topical(count: int) -> SoughtPredicates:
    values = WORDS_ALL + np.arange(count) % (TERMS - WORDS_ALL)
    bounds = np.tile([-np.inf, np.inf], (count, 1))
    return predicates(np.tile(NOWHERE, (count, 1)), [[]] * count, np.ones(count, np.bool_), values, bounds)


def _sample(count: int = 2) -> tuple[IndexedRecords, TermSpans]:
    at = np.linspace(0.1, 0.9, count)
    values = np.full((count, 1), WORDS_ALL, np.int32)
    text, ends = np.arange(count, dtype=np.int32), np.arange(count + 1, dtype=np.int32)
    some = IndexedRecords(at, at, text, values, np.zeros((count, 1)))
    return some, TermSpans(ends[:-1].copy(), ends[1:].copy(), np.zeros(count, np.int32))


def _fill(index: ChTreeIndex, sought: SoughtPredicates, there: Any, records: int = 2) -> None:
    box = np.where(np.isin(sought.id, there)[:, None], sought.box, np.nan)
    index.fill(sought._replace(box=box), *_sample(records), SEEN, (0.0, 0.0, 1.0, 1.0))


def test_trees_are_limited_and_removed_with_their_queries() -> None:
    index, sought = ChTreeIndex(SlotState.fresh(0), "s1/trees", 100), _topical(250)
    _fill(index, sought, np.arange(150))
    assert index.counts == [100, 50]
    _fill(index, sought, np.arange(250))
    assert index.counts == [100, 100, 50]
    _fill(index, sought, np.arange(40, 250))
    assert index.counts == [100, 100, 50]
    _fill(index, sought, np.arange(250))
    assert index.counts == [100, 100, 50]
    _fill(index, sought, np.arange(64, 250))
    assert index.counts == [100, 86]
    _fill(index, sought, np.arange(0))
    assert index.counts == []


def test_single_queries_join_trees_that_are_no_larger_than_what_joins_them() -> None:
    index, sought = ChTreeIndex(SlotState.fresh(0), "s1/trees", 1_000), _topical(300)
    with mock.patch.object(ch_trees, "SMALL", 4):
        for count in range(100, 117):
            _fill(index, sought, np.arange(count))
            assert index.counts[0] == 100
        assert index.counts == [100, 10, 5, 1]
        _fill(index, sought, np.arange(300))
        assert index.counts == [300]


def test_a_tree_without_active_queries_is_not_walked() -> None:
    index, sought = ChTreeIndex(SlotState.fresh(0), "s1/trees", 30), _topical(300)
    _fill(index, sought, np.arange(300))
    _fill(index, sought, np.arange(40, 300))
    assert index._array("lives").tolist() == [False] + [True] * 9


def test_levels_come_by_their_costs() -> None:
    few = _topical(40)
    few.box[:] = [0.0, 0.0, 0.5, 0.5]
    index = ChTreeIndex(SlotState.fresh(0), "s1/trees")
    _fill(index, few, np.arange(40), 40)
    assert index.orders == [[VALUES, PLACE]]
    few.values[:], few.box[:] = WORDS_ALL, [0.2, 0.2, 0.2, 0.2]
    _fill(index, few, np.arange(40), 40)
    assert index.orders == [[PLACE, VALUES]]
    few.bounds[:, 0], few.values[:] = [5.0, 6.0], -1
    _fill(index, few, np.arange(40), 40)
    assert index.orders == [[PLACE, VALUES + 1]]
    few.box[:] = [0.0, 0.0, 0.5, 0.5]
    _fill(index, few, np.arange(40), 40)
    assert index.orders == [[VALUES + 1, PLACE]]


def test_words_are_a_level() -> None:
    none = np.full((2, 2), [-np.inf, np.inf])
    some = predicates(np.tile(NOWHERE, (2, 1)), [[0, 5], [1]], np.ones(2, np.bool_), np.full(2, -1), none)
    index = ChTreeIndex(SlotState.fresh(0), "s1/trees")
    _fill(index, some, np.arange(2))
    assert index.orders == [[WORDS]]


def test_trees_without_enough_records_are_built_anew_once_they_came() -> None:
    index, sought = ChTreeIndex(SlotState.fresh(0), "s1/trees", 100), _topical(10)
    _fill(index, sought, np.arange(10))
    assert not index.is_due
    index.count(300)
    assert index.is_due
    _fill(index, sought, np.arange(10), 300)
    index.count(10_000)
    assert not index.is_due


def test_labels_follow_their_terms_when_these_are_renumbered() -> None:
    state = SlotState.fresh(0)
    index, sought = ChTreeIndex(state, "s1/trees"), _topical(8)
    _fill(index, sought, np.arange(8))
    [name] = derived(state, "terms", 1)
    kept = np.array([*range(WORDS_ALL, TERMS)])
    state.replace(name, state.array(name)[kept])
    some, spans = _sample()
    nowhere = some._replace(x=np.full(2, np.nan))
    pairs = index.join(nowhere, some._replace(values=np.array([[0], [3]], np.int32)), spans)
    assert sorted(zip(pairs.event.tolist(), pairs.query.tolist(), strict=True)) == [
        (0, 0),
        (0, 4),
        (1, 3),
        (1, 7),
    ]
    again = sought._replace(values=(sought.values - WORDS_ALL).astype(np.int32))
    index.fill(again, *_sample(), SEEN[WORDS_ALL:], None)
    assert index.counts == [8]


def test_a_quad_tree_is_not_split_where_all_ranges_lie_on_top_of_each_other() -> None:
    assert len(grow_quad(np.tile([0.1, 0.1, 0.9, 0.9], (100, 1)))) == 1
    assert len(grow_quad(np.tile([0.2, 0.2, 0.2, 0.2], (100, 1)))) == 41


def test_a_quad_tree_keeps_its_shape_and_finds_each_range_in_the_leaf_of_its_places() -> None:
    low = np.random.default_rng(1).random((300, 2)) * 0.9
    child = grow_quad(np.hstack([low, low + 0.01]))
    nodes = len(child)
    assert nodes > 50
    entry, leaf = quad_leaves(child, np.hstack([low + 0.003, low + 0.02]))
    _, home = quad_leaves(child, np.hstack([low + 0.003, low + 0.003]))
    assert all(home[i] in leaf[entry == i] for i in range(300))
    assert len(child) == nodes


@pytest.mark.parametrize("centres", [0, 1, 3, 10])
def test_the_path_of_a_number_has_the_node_of_each_interval_around_it(centres: int) -> None:
    draw = np.random.default_rng(centres)
    middle = np.sort(draw.integers(0, 20, centres).astype(np.float64))
    ends = np.sort(draw.integers(-2, 22, (200, 2)).astype(np.float64), axis=1)
    node = ch_trees._interval_node(middle, ends[:, 0], ends[:, 1])
    for number in range(-3, 24):
        path = set(ch_trees._interval_paths(middle, np.array([float(number)])).tolist())
        around = (ends[:, 0] <= number) & (number <= ends[:, 1])
        assert set(node[around].tolist()) <= path
