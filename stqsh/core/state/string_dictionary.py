"""A stream's string dictionary: the codes of all STRING values, and the removal of unused strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import Relation, derived, referenced, references, renumber

_SPARE = 4096
"""The most unused strings that may exist before the dictionary is rebuilt."""


def pool_of(state: SlotState, stream: int) -> Interner:
    """Return the dictionary of a stream's strings on this slot."""
    return Interner(state, f"s{stream}/strings")


def vacuum(state: SlotState, stream: int, *, now: bool = False) -> bool:
    """Remove the strings that no array refers to, and return whether codes have changed.

    This happens once they are more than half of the dictionary, or `now`. Amortised over the batches that
    added the strings, this costs less than reading the strings did.
    """
    pool = pool_of(state, stream)
    named = sum(len(state.array(name)) for name in references(state, "strings", stream))
    if not now and len(pool) <= 2 * named + _SPARE:
        return False
    return remove_unused(state, "strings", stream, f"s{stream}/strings")


def remove_unused(state: SlotState, relation: Relation, stream: int, prefix: str, spare: int = -1) -> bool:
    """Remove the strings of an interner that no array refers to; return whether strings were removed.

    Args:
        state: The slot's state.
        relation: The relation that the strings form: "strings" or "terms".
        stream: The stream of the strings.
        prefix: The prefix of the interner's arrays.
        spare: Do nothing unless the unused strings are more than half of all strings, and more than this; -1
            always removes them.
    """
    interner = Interner(state, prefix)
    used = referenced(state, relation, stream, len(interner))
    kept = np.flatnonzero(used)
    if spare >= 0 and len(used) <= 2 * len(kept) + spare:
        return False
    texts = interner.take(kept, pa.string())
    state.release(f"{prefix}/")
    Interner(state, prefix).intern(texts)
    renumber(state, relation, stream, used)
    for name in derived(state, relation, stream):
        values = state.array(name)
        state.replace(name, values[kept[kept < len(values)]])
    return True
