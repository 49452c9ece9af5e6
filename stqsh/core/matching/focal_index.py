"""The mapping of focal objects to this slot's objects, which are in separate tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.state.table import add_derived

Array = npt.NDArray[Any]


def own_objects(batch: StreamBatch) -> Array:
    """Return the object on this slot for each focal object, -1 for none; int32 (focal objects,).

    It is kept in the array `s{id}/own/object`; `s{id}/own/seen`, int64 (1,), is the number of objects already
    covered. Only keys that are new in one of the tables are looked up, as there may be as many focal objects
    as queries.
    """
    state, focal, objects = batch.state, batch.focal.table, batch.objects.table
    prefix = f"s{batch.spec.id}/own"
    if f"{prefix}/seen" not in state:
        add_derived(state, prefix, "objects")
        state.create(f"{prefix}/object", np.int32)
        state.create(f"{prefix}/seen", np.int64, 1)
    known, seen = len(state.array(f"{prefix}/object")), state.array(f"{prefix}/seen")
    own = state.resize(f"{prefix}/object", len(focal))
    if known < len(focal):
        new = np.arange(known, len(focal), dtype=np.int32)
        own[new] = objects.keys.find(focal.show_keys(new))
    if known and seen[0] < len(objects):
        new = np.arange(seen[0], len(objects), dtype=np.int32)
        at = focal.keys.find(objects.show_keys(new))
        own[at[at >= 0]] = new[at >= 0]
    seen[0] = len(objects)
    return own
