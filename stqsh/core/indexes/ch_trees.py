"""STAR's CH-tree (section 5.1): queries by one kind of predicates a level, in the order of their costs.

A tree takes a limited number of queries; further ones begin a tree whose levels, quad-tree and interval trees
follow from the queries and records of that time. A query that is removed is only marked, and is entered again
where it was if it returns. Once enough are marked, all trees are rebuilt without them.

A tree has no place for further queries. They join the last trees only while these are no larger than what
joins them, or small, so each query is built in again a number of times that grows with the logarithm of the
number of queries (the logarithmic method of Bentley and Saxe, which the paper does not need, as its trees are
small).

Other than in the paper, ranges and intervals are tested where queries are reached, in the leaves, rather than
on the way with a list of queries that failed: fewer are left there. A query with `CONTAINS ANY` goes on under
each of its words. All trees are also rebuilt once there are records to estimate costs by.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.indexes.quad_shape import grow_quad, quad_leaves
from stqsh.core.kernels.index.ch_trees import (
    BOUNDED,
    BOXED,
    CHECKED,
    PLACE,
    REPEATED,
    VALUES,
    WORDS,
    ChTrees,
    RecordSides,
    SignedQueries,
    TestedQueries,
    TreeJoin,
    fill_table,
    find_rows,
    join,
    sign_rows,
)
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_sets import TermSpans
from stqsh.core.regions.grid_layout import frame_over
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import add_derived
from stqsh.spec.stream import Bounds

LIMIT = 1_000
"""The paper's limit of queries of a tree."""

SMALL = 1_024
"""The size up to which the last tree is built again for each further query."""

LAZY = 64
"""The fewest queries that are removed together; they are at least a quarter of the active ones, too."""

ENOUGH = 256
"""The number of records that costs are estimated by; trees built before that are rebuilt."""

_FULL = 16
"""The number of queries a node of an interval tree is made for."""

_CHECK, _TAKE, _VERIFY = (40.0, 100.0, 8.0, 30.0), (2.0, 2.0, 2.0, 2.0), (5.0, 6.0, 0.0, 4.0)
"""c1, c2 and c3 of equation (5) for places, words, values and numbers, ns: a look at a record's attribute, a
query that needs no test, and one that does."""

_BELOW_ONE = 1.0 - 2.0**-53
_MIX = np.uint64(0x9E3779B97F4A7C15)


class SoughtPredicates(NamedTuple):
    """The predicates of queries, a row each.

    Attributes:
        id: int64 (n,).
        box: x1, y1, x2, y2, float64 (n, 4); infinite for no range, NaN for a query that is not indexed.
        start, words: The terms of query i are words[start[i]:start[i + 1]], int32 each.
        every: Whether all of these words are required, bool (n,); else any is.
        values: The terms of values that columns must have, int32 (n, value columns); -1 for none.
        bounds: The least and the greatest number in each number column, float64 (n, number columns, 2).
        checked: Whether pairs that stay are wanted, too, bool (n,).
        digest: A digest of words and values, uint64 (n,); it stays when terms are renumbered.
    """

    id: Array
    box: Array
    start: Array
    words: Array
    every: Array
    values: Array
    bounds: Array
    checked: Array
    digest: Array


class IndexedRecords(NamedTuple):
    """Records: x, y float64 (n,), NaN for none; and the rest as in `RecordSides`, without the sides."""

    x: Array
    y: Array
    text: Array
    values: Array
    numbers: Array


class Labels(NamedTuple):
    """Labels of things 0 … n - 1: those of thing i are label[start[i]:start[i + 1]], int64; -1 for none."""

    start: Array
    label: Array

    @staticmethod
    def of(count: int, thing: Array, label: Array) -> Labels:
        """Return labels given in pairs; things without any have the label -1."""
        held = np.bincount(thing, minlength=count)
        others = np.flatnonzero(held == 0)
        thing, label = np.append(thing, others), np.append(label, np.full(len(others), -1))
        order = np.argsort(thing, kind="stable")
        return Labels(np.append(0, np.cumsum(np.maximum(held, 1))), label[order].astype(np.int64))

    def spread(self, things: Array) -> tuple[Array, Array]:
        """Return for each of some things which of them it is, as often as it has labels, and the labels."""
        counts = np.diff(self.start)[things]
        which = np.repeat(np.arange(len(things)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return which, self.label[self.start[things][which] + within]


class ChTreeIndex:
    """CH-trees of queries, kept in arrays below `prefix`.

    The arrays are those of `ChTrees` and `TestedQueries`, where each tree goes on behind the one before it,
    and: id int64 and sign uint64 (rows,), each row's query and a digest of its predicates; starts int64
    (trees * 5,), where the rows, nodes, quad-tree, table and entries of each tree begin; label int32
    (terms,); frame float64 (4,), the corner of the unit square, and its units per x and y; and sizes int64
    (5,): the columns of values and of numbers, the labels, the records that costs were estimated by, and
    the records since.
    """

    def __init__(self, state: SlotState, prefix: str, limit: int = LIMIT) -> None:
        self._state, self._prefix, self._limit = state, prefix, limit

    @property
    def is_built(self) -> bool:
        """Whether `fill` has made the arrays."""
        return f"{self._prefix}/sizes" in self._state

    @property
    def is_due(self) -> bool:
        """Whether records came by which the next `fill` can estimate costs."""
        known, more = self._array("sizes")[3:].tolist()
        return bool(known < ENOUGH <= known + more)

    @property
    def counts(self) -> list[int]:
        """The number of queries of each tree, with those that are only marked as removed."""
        return [int(count) for count in np.diff(self._starts[:, 0], append=len(self._array("id")))]

    @property
    def held(self) -> Array:
        """The active queries, int64 (n,)."""
        active: Array = self._array("id")[self._array("position") >= 0]
        return active

    @property
    def orders(self) -> list[list[int]]:
        """The kinds of predicates of each tree's levels, from the root on."""
        orders = self._array("order").reshape(-1, VALUES + sum(self.columns)).tolist()
        return [[int(kind) for kind in order if kind >= 0] for order in orders]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(self._state.array(name).nbytes for name in self._state.names(f"{self._prefix}/"))

    @property
    def columns(self) -> tuple[int, int]:
        """The number of columns with values, and of those with numbers."""
        values, numbers = self._array("sizes")[:2].tolist()
        return values, numbers

    def release(self) -> None:
        """Remove the arrays."""
        self._state.release(f"{self._prefix}/")

    def count(self, records: int) -> None:
        """Count records that came, for `is_due`."""
        self._array("sizes")[4] += records

    def fill(
        self,
        sought: SoughtPredicates,
        sample: IndexedRecords,
        spans: TermSpans,
        seen: Array,
        bounds: Bounds | None,
    ) -> None:
        """Update the trees to queries, whose positions are those in `sought`.

        Args:
            sought: The queries.
            sample: Records of the past, by which costs are estimated.
            spans: The terms of their texts.
            seen: How often records have each term, int64 (terms,).
            bounds: The extent of the stream, if known.
        """
        columns = sought.values.shape[1], sought.bounds.shape[1]
        new = np.flatnonzero(~np.isnan(sought.box[:, 0]))
        signs = _signs(sought, new)
        live, is_new = new, not self.is_built or self.is_due or self.columns != columns
        if not is_new:
            new = self._mark(sought.id, signs, live)
            gone = int(np.count_nonzero(self._array("position") < 0))
            is_new = gone >= max(LAZY, (len(live) - len(new)) // 4)
        if is_new:
            self._begin(columns, sought.box[live], len(sample.x), bounds)
            new = live
        for name, values in (("box", sought.box), ("bounds", sought.bounds), ("tests", _tests(sought))):
            self._state.replace(f"{self._prefix}/{name}", values.reshape(-1))
        self._state.resize(f"{self._prefix}/label", len(seen))
        new = self._with_last(new)
        while len(new):
            some, new = new[: self._limit], new[self._limit :]
            self._add_tree(sought, signs, some, _Past(sample, spans, seen))
        rows = self._array("position") >= 0
        lives = np.add.reduceat(rows, self._starts[:, 0]) > 0 if len(rows) else np.empty(0, np.bool_)
        self._state.replace(f"{self._prefix}/lives", lives)

    def join(self, old: IndexedRecords, new: IndexedRecords, spans: TermSpans) -> CandidatePairs:
        """Return the pairs of events and queries, by position, whose indexed predicates match.

        Args:
            old: The records before the events.
            new: The records after them.
            spans: The terms of texts.
        """
        x, y, text, values, numbers = (np.stack(pair) for pair in zip(old, new, strict=True))
        unit = self._unit(np.stack([x, y], axis=-1))
        records = RecordSides(x, y, unit[..., 0].copy(), unit[..., 1].copy(), text, values, numbers)
        starts, array = self._starts, self._array
        trees = ChTrees(
            lives=array("lives"),
            order=array("order").reshape(-1, VALUES + sum(self.columns)),
            root=starts[:, 1].copy(),
            quad=starts[:, 2].copy(),
            child=array("child"),
            centre=array("centre"),
            centres=array("centres"),
            none=array("none"),
            labelled=array("labelled"),
            first=array("first"),
            held=array("held"),
            table=np.append(starts[:, 3], len(array("key"))),
            key=array("key"),
            value=array("value"),
            row=array("row"),
            position=array("position"),
        )
        bounds = array("bounds").reshape(len(array("tests")), 2 * self.columns[1])
        queries = TestedQueries(array("box").reshape(-1, 4), bounds, array("tests"))
        return join(TreeJoin(trees, queries, records, spans, frozen(array("label"))))

    def _array(self, name: str) -> Array:
        return self._state.array(f"{self._prefix}/{name}")

    @property
    def _starts(self) -> Array:
        return self._array("starts").reshape(-1, 5)

    def _begin(self, columns: tuple[int, int], boxes: Array, records: int, bounds: Bounds | None) -> None:
        """Remove all trees."""
        for name, dtype in _ARRAYS.items():
            self._state.replace(f"{self._prefix}/{name}", np.empty(0, dtype))
        self._state.resize(f"{self._prefix}/centre", 1)
        frame = frame_over(boxes[:, 0::2].ravel(), boxes[:, 1::2].ravel(), 1, bounds)
        self._state.replace(f"{self._prefix}/frame", np.array(frame[:4], np.float64))
        self._state.replace(f"{self._prefix}/sizes", np.array([*columns, 0, records, 0], np.int64))
        add_derived(self._state, f"{self._prefix}/label", "terms")

    def _mark(self, ids: Array, signs: Array, live: Array) -> Array:
        """Mark the rows of queries that are gone or have changed; return the positions of new queries."""
        is_live = np.zeros(len(ids), np.bool_)
        is_live[live] = True
        rows = frozen(self._array("id")), frozen(self._array("sign"))
        position, is_new = find_rows(*rows, SignedQueries(frozen(ids), signs, is_live))
        self._state.replace(f"{self._prefix}/position", position)
        return np.flatnonzero(is_new)

    def _with_last(self, new: Array) -> Array:
        """Remove the last trees that are built again with new queries; return all positions to enter."""
        while len(new) and (counts := self.counts) and counts[-1] < self._limit:
            if counts[-1] > max(len(new), SMALL):
                break
            last = self._array("position")[self._starts[-1, 0] :]
            new = np.concatenate([last[last >= 0].astype(np.int64), new])
            self._cut()
        return new

    def _cut(self) -> None:
        """Remove the last tree."""
        starts, numbers = self._starts, self.columns[1]
        ends = dict(zip(_LISTS, starts[-1].tolist(), strict=True))
        trees = len(starts) - 1
        for names, end in ends.items():
            for name in names:
                self._state.resize(f"{self._prefix}/{name}", end)
        self._state.resize(f"{self._prefix}/centre", trees * numbers + 1)
        self._state.resize(f"{self._prefix}/centres", int(self._array("centre")[-1]))
        self._state.resize(f"{self._prefix}/order", trees * (VALUES + sum(self.columns)))
        self._state.resize(f"{self._prefix}/starts", 5 * trees)

    def _add_tree(self, sought: SoughtPredicates, signs: Array, some: Array, past: _Past) -> None:
        """Add a tree of queries, given by position."""
        kinds, prefix = VALUES + sum(self.columns), self._prefix
        starts = [len(self._array(names[0])) for names in _LISTS]
        own = SoughtPredicates(*(_rows(sought, name, some) for name in SoughtPredicates._fields))
        shape = _TreeShape.of(self._unit(own.box.reshape(-1, 2, 2)).reshape(-1, 4), own.bounds)
        labels = [self._labels(own, kind, shape, past.seen) for kind in range(kinds)]
        used = [kind for kind in range(kinds) if (labels[kind].label >= 0).any()]
        costs = {kind: self._cost(labels[kind], kind, shape, past) for kind in used}
        order = sorted(used, key=costs.__getitem__)
        nodes = _nodes([labels[kind] for kind in order], len(some), starts[1])
        slots = 1 << max(4, int(2 * len(nodes.key) - 1).bit_length())
        key, value = np.full(slots, -1, np.int64), np.empty(slots, np.int32)
        fill_table(nodes.key, nodes.child, key, value)
        lists = dict(zip(("id", "sign", "position"), (own.id, signs[some], some), strict=True))
        lists |= {"none": nodes.none, "labelled": nodes.labelled, "held": nodes.held, "key": key}
        lists |= {"first": nodes.first + starts[4], "value": value, "row": nodes.row + starts[0]}
        lists |= {"child": shape.child, "order": np.array(order + [-1] * (kinds - len(order)))}
        lists |= {"centres": np.concatenate([np.empty(0), *shape.centres]), "starts": np.array(starts)}
        ends = self._array("centre")[-1] + np.cumsum([len(one) for one in shape.centres])
        for name, content in (lists | {"centre": ends}).items():
            self._state.append(f"{prefix}/{name}", content)

    def _unit(self, places: Array) -> Array:
        """Return places (…, 2) within the unit square; the order of coordinates does not change."""
        x0, y0, per_x, per_y = self._array("frame").tolist()
        scaled = (places - np.array([x0, y0])) * np.array([per_x, per_y])
        inside: Array = np.clip(scaled, 0.0, _BELOW_ONE)
        return inside

    def _labels(self, own: SoughtPredicates, kind: int, shape: _TreeShape, seen: Array) -> Labels:
        """Return the labels under which queries go on at a level of a kind."""
        count, (values, _) = len(own.id), self.columns
        if kind == PLACE:
            at = np.flatnonzero(shape.is_placed)
            entry, leaf = quad_leaves(shape.child, shape.boxes[at])
            return Labels.of(count, at[entry], leaf)
        if kind == WORDS:
            query = np.repeat(np.arange(count), np.diff(own.start))
            order = np.lexsort((seen[own.words], query))
            chosen = ~own.every[query[order]]
            chosen[np.unique(query[order], return_index=True)[1]] = True
            at = order[chosen]
            return Labels.of(count, query[at], self._label(own.words[at]))
        if kind < VALUES + values:
            asked = own.values[:, kind - VALUES]
            at = np.flatnonzero(asked >= 0)
            return Labels.of(count, at, self._label(asked[at]))
        low, high = own.bounds[:, kind - VALUES - values].T
        at = np.flatnonzero((low > -np.inf) | (high < np.inf))
        return Labels.of(count, at, _interval_node(shape.centres[kind - VALUES - values], low[at], high[at]))

    def _label(self, terms: Array) -> Array:
        """Return the labels of terms, from 1 on; terms without one get the next."""
        label, used = self._array("label"), self._array("sizes")[2]
        more = np.unique(terms[label[terms] == 0])
        label[more] = used + 1 + np.arange(len(more))
        self._array("sizes")[2] += len(more)
        return label[terms]

    def _cost(self, labels: Labels, kind: int, shape: _TreeShape, past: _Past) -> float:
        """Return the cost of a kind of predicates for the records of the past, equation (5)."""
        values, records, label = self.columns[0], past.sample, self._array("label")
        if kind == PLACE:
            there = ~np.isnan(records.x)
            at = self._unit(np.column_stack([records.x, records.y])[there])
            met = quad_leaves(shape.child, np.hstack([at, at]))[1]
        elif kind == WORDS:
            begin, end, codes = past.spans
            text = records.text[records.text >= 0]
            counts = (end[text] - begin[text]).astype(np.int64)
            which = np.repeat(np.arange(len(text)), counts)
            within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
            met = label[codes[begin[text][which] + within]]
        elif kind < VALUES + values:
            terms = records.values[:, kind - VALUES]
            met = label[terms[terms >= 0]]
        else:
            met = _interval_paths(
                shape.centres[kind - VALUES - values], records.numbers[:, kind - VALUES - values]
            )
        own = labels.label[labels.label >= 0]
        found = np.bincount(own, minlength=int(met.max(initial=0)) + 1)[met].sum()
        group = kind if kind < VALUES else VALUES + (kind >= VALUES + values)
        needs = 0.0 if group == VALUES else found
        return float(_CHECK[group] * len(records.x) + _TAKE[group] * (found - needs) + _VERIFY[group] * needs)


_LISTS = (
    ("id", "sign", "position"),
    ("none", "labelled", "first", "held"),
    ("child",),
    ("key", "value"),
    ("row",),
)
"""The arrays that begin anew with each tree at the places in `starts`."""

_ARRAYS = {
    "id": np.int64,
    "sign": np.uint64,
    "position": np.int32,
    "none": np.int32,
    "labelled": np.bool_,
    "first": np.int32,
    "held": np.int32,
    "child": np.int32,
    "key": np.int64,
    "value": np.int32,
    "row": np.int32,
    "order": np.int8,
    "starts": np.int64,
    "centre": np.int64,
    "centres": np.float64,
    "label": np.int32,
}


class _Past(NamedTuple):
    """What costs are estimated by: records, the terms of their texts, and how often each term occurs."""

    sample: IndexedRecords
    spans: TermSpans
    seen: Array


class _TreeShape(NamedTuple):
    """The shapes of a tree's quad-tree and interval trees, and its queries' boxes in the unit square."""

    boxes: Array
    is_placed: Array
    child: Array
    centres: list[Array]

    @staticmethod
    def of(boxes: Array, bounds: Array) -> _TreeShape:
        """Return the shapes that queries give."""
        both = np.hstack([boxes[:, :2] > 0, boxes[:, 2:] < _BELOW_ONE])
        is_placed: Array = np.logical_or.reduce(both, axis=1)
        centres = [_centres(bounds[:, k]) for k in range(bounds.shape[1])]
        return _TreeShape(boxes, is_placed, grow_quad(boxes[is_placed]), centres)


class _TreeNodes(NamedTuple):
    """The nodes of a tree, as in `ChTrees`; entries and rows count from 0, key and child have all labels."""

    none: Array
    labelled: Array
    first: Array
    held: Array
    row: Array
    key: Array
    child: Array


def _nodes(levels: list[Labels], queries: int, first: int) -> _TreeNodes:
    """Return the nodes of a tree of some queries, level by level; the root has the number `first`."""
    entry, node, count = np.arange(queries), np.full(queries, first, np.int64), 1
    none, keys, children = [np.empty((2, 0), np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for labels in levels:
        which, label = labels.spread(entry)
        entry, node = entry[which], node[which]
        made, to = np.unique((node << 32) | (label + 1), return_inverse=True)
        child = first + count + np.arange(len(made))
        count += len(made)
        parent, label = made >> 32, (made & 0xFFFFFFFF) - 1
        none.append(np.stack([parent[label < 0], child[label < 0]]))
        keys.append(((parent << 32) | label)[label >= 0])
        children.append(child[label >= 0])
        node = child[to.reshape(-1)]
    order = np.argsort(node, kind="stable")
    held = np.bincount(node - first, minlength=count)
    others = np.full(count, -1, np.int32)
    parent, child = np.concatenate(none, axis=1)
    others[parent - first] = child
    key, labelled = np.concatenate(keys), np.zeros(count, np.bool_)
    labelled[(key >> 32) - first] = True
    starts = np.cumsum(held) - held
    return _TreeNodes(others, labelled, starts, held, entry[order], key, np.concatenate(children))


def _rows(sought: SoughtPredicates, name: str, some: Array) -> Array:
    """Return a field of predicates for some queries."""
    counts = np.diff(sought.start)[some]
    if name == "start":
        return np.append(0, np.cumsum(counts))
    if name != "words":
        chosen: Array = getattr(sought, name)[some]
        return chosen
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    words: Array = sought.words[np.repeat(sought.start[some], counts) + within]
    return words


def _centres(bounds: Array) -> Array:
    """Return the centres of an interval tree for intervals, float64 (n, 2); ascending."""
    ends = np.sort(bounds[np.isfinite(bounds)])
    count = len(ends) // (2 * _FULL)
    return ends[(np.arange(count) + 1) * len(ends) // (count + 1)]


def _interval_node(centres: Array, low: Array, high: Array) -> Array:
    """Return the node of each interval: the first with its centre inside; else where it falls between."""
    begin, end = np.zeros(len(low), np.int64), np.full(len(low), len(centres))
    found = np.full(len(low), -1)
    while (at := np.flatnonzero((found < 0) & (begin < end))).size:
        middle = (begin[at] + end[at]) // 2
        below, above = high[at] < centres[middle], low[at] > centres[middle]
        end[at] = np.where(below, middle, end[at])
        begin[at] = np.where(above, middle + 1, begin[at])
        found[at] = np.where(below | above, -1, middle)
    return np.where(found < 0, len(centres) + begin, found)


def _interval_paths(centres: Array, numbers: Array) -> Array:
    """Return the nodes on the paths of numbers, one after the other; NaN has none."""
    numbers = numbers[~np.isnan(numbers)]
    begin, end = np.zeros(len(numbers), np.int64), np.full(len(numbers), len(centres))
    paths = []
    while (at := np.flatnonzero(begin < end)).size:
        middle = (begin[at] + end[at]) // 2
        paths.append(middle)
        below = numbers[at] < centres[middle]
        end[at], begin[at] = np.where(below, middle, end[at]), np.where(below, begin[at], middle + 1)
    return np.concatenate([*paths, len(centres) + begin])


def _signs(sought: SoughtPredicates, some: Array) -> Array:
    """Return a digest of each of some queries and its predicates, by position, uint64 (n,); 0 for others."""
    numbers = [sought.id[some], sought.every[some], sought.checked[some]]
    places = [sought.box[some], sought.bounds[some].reshape(len(some), 2 * sought.bounds.shape[1])]
    bits = [np.column_stack(numbers).astype(np.int64), *(one.view(np.int64) for one in places)]
    signs = np.zeros(len(sought.id), np.uint64)
    signs[some] = sign_rows(sought.digest[some], np.hstack(bits).view(np.uint64))
    return signs


def _tests(sought: SoughtPredicates) -> Array:
    """Return what is to be done for each query in a leaf, as in `TestedQueries`."""
    is_boxed, is_bounded = np.isfinite(sought.box).any(axis=1), np.isfinite(sought.bounds).any(axis=(1, 2))
    is_repeated = ~sought.every & (np.diff(sought.start) > 1)
    tests: Array = CHECKED * sought.checked + BOXED * is_boxed + BOUNDED * is_bounded + REPEATED * is_repeated
    return tests.astype(np.uint8)


def digests(count: int, *parts: tuple[Array, Array]) -> Array:
    """Return digests of queries, uint64 (count,), from numbers of theirs in no particular order.

    Each part has the positions of queries, (n,), and a number for each, integers (n,).
    """
    found = np.zeros(count, np.uint64)
    for owner, numbers in parts:
        np.add.at(found, owner, _mixed(numbers.astype(np.uint64)))
    return found


def _mixed(numbers: Array) -> Array:
    """Return other numbers for numbers, uint64, one for one."""
    found = (numbers + np.uint64(1)) * _MIX
    found = (found ^ (found >> np.uint64(32))) * _MIX
    last: Array = found ^ (found >> np.uint64(29))
    return last
