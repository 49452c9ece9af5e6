"""The cost of a query on a slot, for EXPLAIN: candidates, index cells, frequencies of terms, counters.

All figures are for one slot; the figures of several slots add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.core.conditions.region_test import RegionNow, reach_of
from stqsh.core.contract.snapshot_selection import EVERYWHERE, PresentObjects, StoredRows
from stqsh.core.indexes.ch_trees import ChTreeIndex
from stqsh.core.kernels.index.scan import count_in_box, in_box
from stqsh.core.kernels.index.static_rects import GridFrame, cover
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.term_table import TermTable
from stqsh.core.texts.tokenizer import tokens
from stqsh.spec.expression import ContainsExpr, find_nodes
from stqsh.spec.measure import QueryCounters, QueryMeasure
from stqsh.spec.query import BoundQuery, QuerySpec
from stqsh.spec.region import Place

SAMPLE = 1000
"""The most objects in the region's box that are tested against region and condition."""

_COUNTERS = ("tested", "matched", "sent")
_GRIDS = {"grid": "grid", "keywords": "keyword index", "cells": "moving cells"}


def measure(state: SlotState, spec: BoundQuery, place: Place | None = None) -> QueryMeasure | None:
    """Measure a query or a snapshot on one slot; return None if the slot does not know the stream.

    `place` is the place of the region's focal object, None while it is absent.
    """
    present = PresentObjects.of(state, spec.stream_id)
    if present is None:
        return None
    reach = reach_of(spec.region, present.resolver, place)
    boxed = np.empty(0, np.int32) if reach.is_nowhere else in_box(present.stored, present.since, reach.box)
    sample = boxed[:: max(1, len(boxed) // SAMPLE)]
    inside = sample if reach.shape is None else sample[reach.shape(*present.places(sample))]
    condition = spec.condition
    held = (
        len(inside) if condition is None else int(StoredRows(present, inside, reach).truth(condition).sum())
    )
    terms, texts = _frequencies(state, spec)
    own, everything = _counters(state, spec)
    return QueryMeasure(
        objects=int(count_in_box(present.stored, present.since, EVERYWHERE)),
        boxed=len(boxed),
        sampled=len(sample),
        inside=len(inside),
        satisfied=held,
        box=tuple(reach.box.tolist()) if np.isfinite(reach.box).all() else None,
        sides=_sides(state, spec, reach),
        terms=terms,
        texts=texts,
        own=own,
        all=everything,
        in_trees=int(_is_in_trees(state, spec)),
    )


def _sides(state: SlotState, spec: BoundQuery, reach: RegionNow) -> dict[str, tuple[int, int]]:
    """Return the side of each of the kind's indexes on this slot, and the number of cells the box touches."""
    found = {}
    for folder, name in _GRIDS.items():
        path = f"s{spec.stream_id}/{spec.kind}/{folder}/lattice"
        if path in state and not reach.is_nowhere:
            x0, y0, per_x, per_y, side = state.array(path)[:5].tolist()
            first, last, low, high = cover(reach.box, GridFrame(x0, y0, per_x, per_y, int(side)))
            found[name] = int(side), int((last - first + 1) * (high - low + 1))
    return found


def _is_in_trees(state: SlotState, spec: BoundQuery) -> bool:
    """Return whether CH-trees find a registered query."""
    trees = ChTreeIndex(state, f"s{spec.stream_id}/{spec.kind}/chtree")
    return trees.is_built and bool((trees.held == _number(spec)).any())


def _frequencies(state: SlotState, spec: BoundQuery) -> tuple[dict[str, int], int]:
    """Return how many texts had each of the condition's terms, and the number of texts counted."""
    if f"s{spec.stream_id}/terms/counted" not in state:
        return {}, 0
    terms = TermTable(state, spec.stream_id)
    if not terms.has_texts:
        return {}, 0
    asked = [str(node.phrase) for node in find_nodes(spec.condition, ContainsExpr)]
    phrases: Any = pa.array(asked, pa.string())
    _, wanted = tokens(phrases)
    codes = terms.words.find(wanted)
    seen = state.array(f"s{spec.stream_id}/terms/counts")
    counted = [int(seen[code]) if 0 <= code < len(seen) else 0 for code in codes.tolist()]
    return dict(zip(map(str, wanted.to_pylist()), counted, strict=True)), terms.frequencies.total


def _number(spec: BoundQuery) -> int:
    """Return the number of the registered query that is measured, 0 for a snapshot."""
    return spec.id if isinstance(spec, QuerySpec) else spec.measure or 0


def _counters(state: SlotState, spec: BoundQuery) -> tuple[QueryCounters | None, QueryCounters]:
    """Return the counters of the query, and those of all queries of the stream of any kind."""
    everything, own = dict.fromkeys(_COUNTERS, 0), dict.fromkeys(_COUNTERS, 0)
    there = False
    streams = f"s{spec.stream_id}/", f"s{-spec.stream_id}/"  # the second is the copy by key
    query_id = _number(spec)
    for name in [name for stream in streams for name in state.names(stream)]:
        if not name.endswith("/tested") or name.count("/") != 2:
            continue
        prefix = name.removesuffix("/tested")
        mine = np.flatnonzero(state.array(f"{prefix}/id") == query_id)
        there = there or bool(len(mine))
        for counter in _COUNTERS:
            values = state.array(f"{prefix}/{counter}")
            everything[counter] += int(values.sum())
            own[counter] += int(values[mine].sum())
    found = QueryCounters(*(own[name] for name in _COUNTERS)) if there else None
    return found, QueryCounters(*(everything[name] for name in _COUNTERS))
