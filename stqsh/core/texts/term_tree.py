"""The tree index of keyword queries, by the cells of their boxes and their rarest terms."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.static_rects import GridFrame
from stqsh.core.kernels.index.term_quadtrees import DEPTH, WIDTH, TermQuadtrees
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.keyword_join import insert_queries, renumber_queries
from stqsh.core.regions.grid_layout import frame_over
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import add_derived, add_reference
from stqsh.core.texts.query_terms import QueryTerms
from stqsh.core.texts.term_table import TermTable
from stqsh.spec.stream import Bounds

_ROOM = 4096
"""The minimum room for entries."""

_OUTGROWN = 4
"""The index is rebuilt once it has this many times as many queries as its grid was built for, or once entries
use this many times the room that they need."""


class TermTree:
    """Keyword queries in the quadtrees of terms.

    Arrays `{prefix}/…`: forest/… as in `TermQuadtrees`, flat; lattice float64 (6,), a `GridFrame` and the
    number of queries that it was built for.
    """

    def __init__(self, state: SlotState, prefix: str, asked: QueryTerms, terms: TermTable) -> None:
        self._state, self._prefix, self._asked, self._terms = state, prefix, asked, terms
        if f"{prefix}/lattice" in state:
            return
        self._clear(GridFrame(0.0, 0.0, 1.0, 1.0, 1), 0)
        add_reference(state, f"{prefix}/forest/rest", "terms")
        add_derived(state, f"{prefix}/forest/root", "terms")

    def _clear(self, frame: GridFrame, count: int) -> None:
        """Remove all queries, and replace the grid."""
        state, folder = self._state, f"{self._prefix}/forest"
        for name, dtype, length in (
            ("root", np.int32, 0),
            ("nodes", np.int32, WIDTH),  # node 0 means none
            ("boxes", np.float64, 0),
            ("rest", np.int32, 0),
            ("tag", np.int32, 0),
            ("used", np.int64, 34),
        ):
            state.create(f"{folder}/{name}", dtype, length)
        state.array(f"{folder}/used")[0] = 1
        state.replace(f"{self._prefix}/lattice", np.array([*frame, count], np.float64))

    def _array(self, name: str) -> Array:
        return self._state.array(f"{self._prefix}/{name}")

    @property
    def forest(self) -> TermQuadtrees:
        """The trees, with a root for each term that existed at the last insertion; see `add_terms`."""
        root, nodes, boxes, rest, tag, used = (
            self._array(f"forest/{name}") for name in TermQuadtrees._fields
        )
        return TermQuadtrees(
            root, nodes.reshape(-1, WIDTH), boxes.reshape(-1, 4), rest.reshape(-1, 2), tag, used
        )

    @property
    def frame(self) -> GridFrame:
        """The finest cells."""
        x0, y0, per_x, per_y, side, _ = self._array("lattice").tolist()
        return GridFrame(x0, y0, per_x, per_y, int(side))

    def add_terms(self) -> None:
        """Add a root for each new term."""
        self._state.resize(f"{self._prefix}/forest/root", len(self._terms))

    def renumber(self, row: Array) -> int:
        """Renumber the rows of entries; return the number of remaining entries, or an upper bound of it.

        `row`, int64 (n,), is the new position of each row, -1 for removed rows.
        """
        if (row == np.arange(len(row))).all():
            return int(self._array("forest/used")[1])
        return int(renumber_queries(self.forest, row))

    def insert(self, rows: Array, left: int, bounds: Bounds | None) -> None:
        """Insert queries that are not indexed, or rebuild the index if it has outgrown its grid or room.

        Args:
            rows: The queries, int64 (n,).
            left: The number of entries.
            bounds: The extent of the stream, if known.
        """
        indexed = int(np.count_nonzero(~np.isnan(self._asked.rows.box[:, 0])))
        needed, used = _OUTGROWN * (left + _ROOM), int(self._array("forest/used")[1])
        if used > needed or indexed > _OUTGROWN * self._array("lattice")[5]:
            self.rebuild(bounds)
        else:
            self._insert(rows)

    def rebuild(self, bounds: Bounds | None) -> None:
        """Insert all queries into a new grid that is built for their number."""
        box = self._asked.rows.box
        rows = np.flatnonzero(~np.isnan(box[:, 0]))
        frame = frame_over(box[:, 0::2].ravel(), box[:, 1::2].ravel(), 1 << DEPTH, bounds)
        self._clear(frame, len(rows))
        self._insert(rows)

    def _insert(self, rows: Array) -> None:
        """Insert queries under their rarest terms; of equally rare terms, the one with fewer queries."""
        if not len(rows):
            return
        asked = self._asked.rows
        asks = np.bincount(asked.terms, minlength=len(self._terms))
        rarity = self._terms.frequencies.seen * (len(self._asked) + 1) + asks
        self.add_terms()
        done, more = np.zeros(2, np.int64), _ROOM + 2 * len(rows)
        while True:
            nodes, entries, *_ = self._array("forest/used").tolist()
            self._make_room(nodes + more, entries + more)
            if insert_queries(self.forest, asked, frozen(rows), frozen(rarity), self.frame, done):
                break
            more *= 2
        nodes, entries, *_ = self._array("forest/used").tolist()
        self._make_room(nodes, entries)

    def _make_room(self, nodes: int, entries: int) -> None:
        sizes = {"nodes": nodes * WIDTH, "boxes": entries * 4, "rest": entries * 2, "tag": entries}
        for name, length in sizes.items():
            self._state.resize(f"{self._prefix}/forest/{name}", length)
