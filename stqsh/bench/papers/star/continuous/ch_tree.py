"""STAR's CH-tree (section 5.1): queries by one kind of predicates a level, in the order of their costs.

A tree takes a limited number of queries; further ones begin a tree with an order and a quad-tree of its own,
by the queries and records of that time. Dropped queries are passed over until enough of them have gathered.
Other than in the paper, ranges are tested where queries are reached, at the leaves, rather than on the way
with a list of queries that failed: fewer are left there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.probes import fill_table, probe_ch_trees
from stqsh.bench.papers.star.continuous.quad import Quad
from stqsh.bench.papers.star.continuous.standing import Standing, is_placed
from stqsh.bench.papers.star.continuous.tables import PLACE, TEXT, TOPIC, ChTrees, Posted, Predicates

LIMIT = 1_000
"""The paper's limit of queries of a tree."""

ENDLESS = 1 << 40

CHECK, TAKE, VERIFY = (8.0, 40.0, 100.0), (2.0, 2.0, 2.0), (0.0, 5.0, 6.0)
"""c1, c2 and c3 of equation (5) for TOPIC, PLACE and TEXT, ns: a look at a record's attribute, a query that
needs no test, and one that does."""


@dataclass
class _Tree:
    """A tree: its order of kinds, the shape of its quad-tree, and its queries, int32."""

    order: tuple[int, ...]
    quad: Quad
    rows: Array


class ChIndex(Standing):
    """CH-trees of at most `limit` queries each."""

    probe = staticmethod(probe_ch_trees)

    def __init__(self, sought: Predicates, sample: Posted, terms: int, limit: int = LIMIT) -> None:
        super().__init__(sought, sample, terms)
        self.name = "CH(inf)" if limit == ENDLESS else f"CH({limit:,})"
        self.limit = limit
        self.trees = list[_Tree]()

    @cached_property
    def keyword(self) -> Array:
        """The term of each row that the fewest records of the sample have, int64 (rows,); -1 for none."""
        sought = self.sought
        seen = np.bincount(self.sample.terms, minlength=self.terms)
        row = np.repeat(np.arange(len(sought.topic)), np.diff(sought.start))
        order = np.lexsort((seen[sought.terms], row))
        found = np.full(len(sought.topic), -1, np.int64)
        found[row[order[::-1]]] = sought.terms[order[::-1]]
        return found

    def enter(self, rows: Array) -> None:
        """Fill the newest tree, and begin others."""
        while len(rows):
            if not self.trees or len(self.trees[-1].rows) >= self.limit:
                quad = Quad(self.sought.box[(mine := rows[: self.limit])[is_placed(self.sought)[mine]]])
                self.trees.append(_Tree(self._order(mine, quad), quad, rows[:0]))
            tree = self.trees[-1]
            room = self.limit - len(tree.rows)
            tree.rows, rows = np.concatenate([tree.rows, rows[:room]]), rows[room:]
        self.index = self._flat()

    def clean(self) -> None:
        """Remove dropped queries, and trees that have no others."""
        for tree in self.trees:
            tree.rows = tree.rows[self.sought.active[tree.rows]]
        self.trees = [tree for tree in self.trees if len(tree.rows)]
        self.index = self._flat()

    def _order(self, rows: Array, quad: Quad) -> tuple[int, ...]:
        """Return the kinds of predicates by ascending cost, equation (5), over rows and the sample."""
        sought, posts = self.sought, self.sample
        about, words = sought.topic[rows], self.keyword[rows]
        _, leaf = quad.leaves(sought.box[rows[is_placed(sought)[rows]]])
        sure = np.bincount(about[about >= 0], minlength=int(posts.topic.max(initial=0)) + 1)[
            posts.topic
        ].sum()
        near = np.bincount(leaf, minlength=len(quad.child))[quad.locate(posts.x, posts.y)].sum()
        said = np.bincount(words[words >= 0], minlength=self.terms)[posts.terms].sum()
        costs = [
            CHECK[kind] * len(posts.x) + TAKE[kind] * held + VERIFY[kind] * tested
            for kind, held, tested in ((TOPIC, sure, 0), (PLACE, 0, near), (TEXT, 0, said))
        ]
        return tuple(np.argsort(costs, kind="stable").tolist())

    def _flat(self) -> ChTrees:
        """Return all trees as arrays."""
        builder = _Builder()
        for tree in self.trees:
            builder.begin(tree)
            entry, node = tree.rows, np.full(len(tree.rows), builder.nodes - 1)
            for kind in tree.order:
                entry, node = builder.level(*self._labels(tree, kind, entry, node))
            builder.leaves.append((node, entry))
        return builder.finish()

    def _labels(self, tree: _Tree, kind: int, entry: Array, node: Array) -> tuple[Array, Array, Array]:
        """Return queries, their nodes, and the labels under which they go on, -1 for those without any."""
        if kind == TOPIC:
            return entry, node, self.sought.topic[entry].astype(np.int64)
        if kind == TEXT:
            return entry, node, self.keyword[entry]
        placed = is_placed(self.sought)[entry]
        at, leaf = tree.quad.leaves(self.sought.box[entry[placed]])
        others = np.full(int((~placed).sum()), -1)
        return (
            np.concatenate([entry[placed][at], entry[~placed]]),
            np.concatenate([node[placed][at], node[~placed]]),
            np.concatenate([leaf, others]),
        )


class _Builder:
    """Gathers the nodes of trees."""

    def __init__(self) -> None:
        self.nodes, self._quads = 0, 0
        self._roots, self._orders, self._quad = list[int](), list[tuple[int, ...]](), list[int]()
        self._child: list[Array] = [np.empty(0, np.int32)]
        self._key: list[Array] = [np.empty(0, np.int64)]
        self._value: list[Array] = [np.empty(0, np.int32)]
        self._none = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        self.leaves = list[tuple[Array, Array]]()

    def begin(self, tree: _Tree) -> None:
        """Begin a tree with its root."""
        self._roots.append(self.nodes)
        self._orders.append(tree.order)
        self._quad.append(self._quads)
        self._child.append(np.where(tree.quad.child < 0, -1, tree.quad.child + self._quads).astype(np.int32))
        self._at = self._quads
        self._quads += len(tree.quad.child)
        self._is_place = [kind == PLACE for kind in tree.order]
        self._depth = 0
        self.nodes += 1

    def level(self, entry: Array, node: Array, label: Array) -> tuple[Array, Array]:
        """Make the children of a level, and return the queries with their new nodes."""
        if self._is_place[self._depth]:
            label = np.where(label < 0, label, label + self._at)
        self._depth += 1
        kinds, to = np.unique((node << 32) | (label + 1), return_inverse=True)
        child = self.nodes + np.arange(len(kinds))
        self.nodes += len(kinds)
        parent, label = kinds >> 32, (kinds & 0xFFFFFFFF) - 1
        is_none = label < 0
        self._none.append((parent[is_none], child[is_none]))
        self._key.append((parent << 32 | label)[~is_none])
        self._value.append(child[~is_none])
        return entry, child[to.reshape(-1)]

    def finish(self) -> ChTrees:
        """Return the trees."""
        none, labelled = np.full(self.nodes, -1, np.int32), np.zeros(self.nodes, np.bool_)
        for parent, child in self._none:
            none[parent] = child
        keys, values = np.concatenate(self._key), np.concatenate(self._value).astype(np.int32)
        labelled[keys >> 32] = True
        slots = 1 << max(4, int(2 * len(keys) - 1).bit_length())
        key, value = np.full(slots, -1, np.int64), np.empty(slots, np.int32)
        fill_table(keys, values, key, value)
        node = np.concatenate([np.empty(0, np.int64), *(one for one, _ in self.leaves)])
        row = np.concatenate([np.empty(0, np.int32), *(one for _, one in self.leaves)])
        order = np.argsort(node, kind="stable")
        return ChTrees(
            np.array(self._roots, np.int64),
            np.array(self._orders, np.int8).reshape(-1, 3),
            np.array(self._quad, np.int64),
            np.concatenate(self._child),
            none,
            labelled,
            key,
            value,
            np.searchsorted(node[order], np.arange(self.nodes + 1)).astype(np.int64),
            row[order].astype(np.int32),
        )
