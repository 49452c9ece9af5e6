"""Find the records whose key is still kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.core.kernels.jit import kernel


@kernel
def find_duplicates(
    places: NDArray[np.int32],
    times: NDArray[np.int64],
    kept_from: NDArray[np.int64],
    latest: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Mark the records, in replay order, whose key is still kept, bool (n,).

    places: int32 (n,), the numbers of their keys. times: int64 (n,), µs. kept_from: int64 (n,), the least
    time that is kept when a record comes. latest: int64 (keys,), the latest time accepted of each key, the
    least int64 where there is none; brought up to date.
    """
    out = np.zeros(len(places), np.bool_)
    for i in range(len(places)):
        place = places[i]
        if latest[place] >= kept_from[i]:
            out[i] = True
        elif latest[place] < times[i]:
            latest[place] = times[i]
    return out
