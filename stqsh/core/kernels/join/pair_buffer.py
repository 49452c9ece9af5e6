"""Pairs of events and moving queries as they are found, in arrays that grow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.jit import Array, Int, kernel


class PairBuffer(NamedTuple):
    """Pairs, (n,) each: event int32, query int32 and flags uint8 (WAS | IS).

    event: its place among the events, or -1 - i for the i-th of
    `stqsh.core.kernels.join.moving_params.UnchangedObjects`: the object itself did nothing.
    """

    event: Array
    query: Array
    flags: Array


@kernel
def no_sightings(room: Int) -> PairBuffer:
    """Room for so many pairs."""
    return PairBuffer(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8))


@kernel
def copied(seen: PairBuffer, used: Int, room: Int) -> PairBuffer:
    """The first `used` pairs, with room for so many."""
    out = no_sightings(room)
    out.event[:used], out.query[:used] = seen.event[:used], seen.query[:used]
    out.flags[:used] = seen.flags[:used]
    return out


@kernel
def with_room(seen: PairBuffer, used: Int, more: Int) -> PairBuffer:
    """The same pairs, of which `used` are there, with room for so many more."""
    return seen if used + more <= len(seen.event) else copied(seen, used, 2 * (used + more))
