"""The cost of a query on a slot, for EXPLAIN: candidates, index cells, frequencies of terms, counters.

All figures are those of one slot; those of several slots add up.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from stqsh.core.conditions.region_test import RegionNow, reach_of
from stqsh.core.contract.snapshot_selection import EVERYWHERE, PresentObjects, StoredRows
from stqsh.core.kernels.index.scan import count_in_box, in_box
from stqsh.core.kernels.index.static_rects import GridFrame, cover
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.term_table import TermTable
from stqsh.core.texts.tokenizer import tokens
from stqsh.spec.expression import ContainsExpr, find_nodes
from stqsh.spec.query import BoundQuery, Place, QuerySpec

Array = npt.NDArray[Any]
Spec: TypeAlias = dict[str, Any]

SAMPLE = 1000
"""Objects of the region's box on which region and condition are tested, at most."""

_COUNTERS = ("tested", "matched", "sent")
_GRIDS = {"grid": "grid", "keywords": "keyword index", "cells": "moving cells"}


def measure(state: SlotState, spec: BoundQuery, place: Place | None = None) -> Spec | None:
    """Measure a query (its QuerySpec) or a snapshot on one slot.

    place: where the region's focal object is, None while it is not present.

    Returns:
        None where the slot does not know the stream.
        objects: those present; boxed: those of them in the region's box.
        sampled, inside, satisfied: how many objects of the box were looked at, were inside the region, and
        satisfied the condition too.
        box: the region's, four numbers, None where it has no end or the focal object is not present.
        sides: by index the cells in each direction, and the cells that the box touches.
        terms: in how many of the counted texts, `total`, each term of the condition came.
        query: tested, matched and sent of the query itself, None where it is not here; all: the same
        of all queries of the stream.
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
    return {
        "objects": int(count_in_box(present.stored, present.since, EVERYWHERE)),
        "boxed": len(boxed),
        "sampled": len(sample),
        "inside": len(inside),
        "satisfied": held,
        "box": reach.box.tolist() if np.isfinite(reach.box).all() else None,
        "sides": _sides(state, spec, reach),
        **_frequencies(state, spec),
        **_counters(state, spec),
    }


def _sides(state: SlotState, spec: BoundQuery, reach: RegionNow) -> dict[str, tuple[int, int]]:
    """Return, for each index of the kind on this slot, its side and how many cells the box touches."""
    found = {}
    for folder, name in _GRIDS.items():
        path = f"s{spec.stream_id}/{spec.kind}/{folder}/lattice"
        if path in state and not reach.is_nowhere:
            x0, y0, per_x, per_y, side = state.array(path)[:5].tolist()
            first, last, low, high = cover(reach.box, GridFrame(x0, y0, per_x, per_y, int(side)))
            found[name] = int(side), int((last - first + 1) * (high - low + 1))
    return found


def _frequencies(state: SlotState, spec: BoundQuery) -> Spec:
    """Return how often the condition's terms occurred, where the slot counts terms."""
    if f"s{spec.stream_id}/terms/counted" not in state:
        return {"terms": {}, "total": 0}
    import pyarrow as pa

    terms = TermTable(state, spec.stream_id)
    asked = [str(node.phrase) for node in find_nodes(spec.condition, ContainsExpr)]
    phrases: Any = pa.array(asked, pa.string())
    _, wanted = tokens(phrases)
    codes = terms.words.find(wanted)
    seen = state.array(f"s{spec.stream_id}/terms/counts")
    counted = [int(seen[code]) if 0 <= code < len(seen) else 0 for code in codes.tolist()]
    return {"terms": dict(zip(wanted.to_pylist(), counted, strict=True)), "total": terms.total}


def _counters(state: SlotState, spec: BoundQuery) -> Spec:
    """Return the counters of the query and of all queries of the stream, of whatever kind."""
    everything, own = dict.fromkeys(_COUNTERS, 0), dict.fromkeys(_COUNTERS, 0)
    there = False
    stream = f"s{spec.stream_id}/"
    query_id = spec.id if isinstance(spec, QuerySpec) else spec.measure or 0
    for name in state.names(stream):
        if not name.endswith("/tested") or name.count("/") != 2:
            continue
        prefix = name.removesuffix("/tested")
        mine = np.flatnonzero(state.array(f"{prefix}/id") == query_id)
        there = there or bool(len(mine))
        for counter in _COUNTERS:
            values = state.array(f"{prefix}/{counter}")
            everything[counter] += int(values.sum())
            own[counter] += int(values[mine].sum())
    return {"query": own if there else None, "all": everything}


def total(measures: list[Spec]) -> Spec:
    """Return the measures of all slots as one; "slots" is how many of them have the query."""
    counts = ("objects", "boxed", "sampled", "inside", "satisfied", "total")
    holders = [one["query"] for one in measures if one["query"] is not None]
    return {
        **{name: sum(one[name] for one in measures) for name in counts},
        "box": next((one["box"] for one in measures if one["box"] is not None), None),
        "sides": {name: tuple(side) for one in measures for name, side in one["sides"].items()},
        "terms": _added([one["terms"] for one in measures]),
        "all": _added([one["all"] for one in measures]),
        "query": _added(holders) if holders else None,
        "slots": len(holders),
        "of_slots": len(measures),
    }


def _added(counts: list[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for one in counts for name in one)
    return {name: sum(one.get(name, 0) for one in counts) for name in names}
