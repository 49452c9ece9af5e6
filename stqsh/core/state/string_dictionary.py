"""A stream's pool of texts: the codes of all STRING values, and how texts that nobody has any more go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState

_SPARE = 4096


def pool_of(state: SlotState, stream: int) -> Interner:
    """The pool of a stream's texts on this slot."""
    return Interner(state, f"s{stream}/strings")


def holds_codes(state: SlotState, stream: int, name: str) -> None:
    """Note that an array consists of codes of the stream's pool."""
    state.header.setdefault("codes", {}).setdefault(str(stream), []).append(name)


def follows_codes(state: SlotState, stream: int, name: str) -> None:
    """Note that an array has one element for each text of the stream's pool, in order; it may be shorter."""
    names = state.header.setdefault("by_code", {}).setdefault(str(stream), [])
    if name not in names:
        names.append(name)


def vacuum(state: SlotState, stream: int, *, now: bool = False) -> bool:
    """Drop the texts that no array names, once they are more than half of the pool, or `now`; codes change.

    Amortised over the batches that brought the texts in, this costs less than reading them did.
    """
    names = state.header.get("codes", {}).get(str(stream), [])
    pool = pool_of(state, stream)
    if not now and len(pool) <= 2 * sum(len(state.array(name)) for name in names) + _SPARE:
        return False
    keyed = [name for name in state.header.get("by_code", {}).get(str(stream), []) if name in state]
    drop_unused(state, f"s{stream}/strings", names, keyed)
    return True


def drop_unused(state: SlotState, prefix: str, coded: list[str], keyed: list[str], spare: int = -1) -> bool:
    """Drop those texts of an interner that no array names, unless they are fewer than half and `spare` more.

    coded: arrays of indices of texts (negative: none), which are changed to the new ones. keyed: arrays with
    one element a text, or fewer, of which those of the texts that stay are kept. Order stays as it was.
    """
    interner = Interner(state, prefix)
    used = np.zeros(len(interner), np.bool_)
    for name in coded:
        codes = state.array(name)
        used[codes[codes >= 0]] = True
    kept = np.flatnonzero(used)
    if spare >= 0 and len(used) <= 2 * len(kept) + spare:
        return False
    texts = interner.take(kept, pa.string())
    state.release(f"{prefix}/")
    Interner(state, prefix).intern(texts)
    code = np.full(len(used) + 1, -1, np.int32)  # the last one is what -1 becomes
    code[kept] = np.arange(len(kept))
    for name in coded:
        codes = state.array(name)
        codes[:] = code[codes]
    for name in keyed:
        values = state.array(name)
        state.replace(name, values[kept[kept < len(values)]])
    return True
