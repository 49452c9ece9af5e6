"""Made-up loads: those of the benchmark's maps, and odd ones."""

from __future__ import annotations

import numpy as np

from stqsh.bench.routing.maps import FOUR_MAPS, UNIT, Floats, Places, orbit, squares_around
from stqsh.routing.cells import Cells
from stqsh.routing.load import Load

__all__ = ["FOUR_MAPS", "UNIT", "Floats", "Places", "load_of", "odd_loads", "orbit", "squares_around"]


def load_of(places: Places, side: int = 256, records: int = 200_000, queries: int = 4_000) -> Load:
    """Make a load whose queries, squares of 1 % side, are where the records are."""
    rng = np.random.default_rng(7)
    x, y = places(rng, records).T
    return Load.of(Cells(UNIT, side), x, y, squares_around(places(rng, queries), 0.01))


def odd_loads(side: int) -> dict[str, Load]:
    """Return small loads at the edges of what can come."""
    none = np.zeros((side, side))
    some = np.random.default_rng(1).integers(0, 9, (side, side)).astype(np.float64)
    point, row, column, corner = none.copy(), none.copy(), none.copy(), none.copy()
    point[side // 2, side // 3] = row[side // 2] = column[:, side // 3] = 5.0
    corner[0, 0], corner[-1, -1] = 1e9, 1e-9
    records = {"empty": none, "point": point, "row": row, "column": column, "corner": corner, "some": some}
    loads = {name: Load(Cells(UNIT, side), found, found) for name, found in records.items()}
    return loads | {
        "no queries": Load(Cells(UNIT, side), some, none),
        "even": Load(Cells(UNIT, side), none + 1, none),
    }
