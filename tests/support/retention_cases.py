"""What slots keep of a stream that retains what is significant, by their arrays and by the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.retention.dropped_objects import DroppedObjects, dropped_count
from stqsh.core.retention.stream_stats import figures, tallies
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.table import slots_of
from stqsh.spec.stream import StreamSpec
from support.cases import Case, Spec
from support.memory import MemoryEngine
from support.oracle import significant
from support.specs import stream_spec


class Kept(NamedTuple):
    """One slot: kept keys with their reference counts, hashes of shed keys, inside, cached and shed of each
    active query, the queries that are locked, and S as far as it goes.
    """

    refs: dict[Any, int]
    shadow: set[int]
    queries: dict[int, tuple[int, int, int]]
    locked: set[int]
    histogram: dict[int, int]


def kept(engine: MemoryEngine, spec: Spec) -> list[Kept]:
    """What each slot keeps."""
    typed, named = stream_spec(spec), engine.named
    return [_kept(state, typed, named) for state in engine.states()]


def _kept(state: SlotState, spec: StreamSpec, named: dict[int, int]) -> Kept:
    prefix = f"s{spec.id}"
    if f"{prefix}/objects/known" not in state:
        return Kept({}, set(), {}, set(), {})
    table = ObjectTable(state, f"{prefix}/objects", spec)
    at = np.flatnonzero(table.stored.known)
    name = f"{prefix}/objects/refs"
    refs = state.array(name)[at].tolist() if name in state else [0] * len(at)
    shadow: set[int] = set()
    if dropped_count(state, spec.id):
        shadow = set(DroppedObjects(state, spec).hash.tolist())
    told, s = tallies(state, spec), figures(state, spec).histogram
    queries = [named[id_] for id_ in told.id.tolist()]
    counts = zip(*(column.tolist() for column in (told.inside, told.cached, told.shed)), strict=True)
    return Kept(
        refs=dict(zip(table.show_keys(at).to_pylist(), refs, strict=True)),
        shadow=shadow,
        queries=dict(zip(queries, counts, strict=True)),
        locked={id_ for id_, locked in zip(queries, told.locked, strict=True) if locked},
        histogram={number: count for number, count in enumerate(s, start=1) if count},
    )


def homes(case: Case, slots: int) -> Callable[[Any], int]:
    """The slot of each of a case's objects."""
    names = sorted({row[case.spec["key"]] for _, row in case.records})
    dealt = slots_of(_hashes(case.spec, names), slots).tolist() if names else []
    return dict(zip(names, dealt, strict=True)).__getitem__


def _hashes(spec: Spec, names: list[Any]) -> Any:
    """The hashes of keys, uint64 (n,)."""
    return hash_keys(
        pa.array(names, ObjectTable(SlotState.fresh(0), "s1/objects", stream_spec(spec)).key_type)
    )


def should_keep(oracle: significant.Significant, n: int, slots: int) -> list[Kept]:
    """What each slot has to keep after a step."""
    out = []
    for slot in range(slots):
        told = significant.tallies(oracle, n, slot)
        shed = [name for name in oracle.shadow if oracle.home(name) == slot]
        out.append(
            Kept(
                refs={name: len(ids) for name, ids in oracle.refs.items() if oracle.home(name) == slot},
                shadow=set(_hashes(oracle.spec, shed).tolist()) if shed else set(),
                queries={id_: (tally.inside, tally.cached, tally.shed) for id_, tally in told.items()},
                locked={id_ for id_, tally in told.items() if tally.is_locked},
                histogram=dict(significant.histogram(oracle, n, slot)),
            )
        )
    return out
