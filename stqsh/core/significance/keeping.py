"""Who stays after a step: insignificant objects are forgotten, and rows close ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Verdict:
    """What becomes of the candidates of a piece after its last step, (objects,) each.

    why: int8, for those that are present and taken out of the batch a position in `chunks.WHY` (LEFT where
    nobody is interested, SHED where load shedding drops them), 0 for others. focal: bool, the focal objects of
    active queries, which always stay.
    """

    why: Array
    focal: Array
