"""How far a moving region is extended: the cache area (SOLE sections 4.4 and 4.5)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from stqsh.spec.stream import StreamSpec

Array = npt.NDArray[Any]
Spec = dict[str, Any]


def reach(spec: StreamSpec, tick_us: int, factor: float = 1.0) -> float:
    """The cache distance D = factor * V * (2 REPORT + 3 TICK), in metres or the stream's unit.

    Why so far: see the package. factor: 0 .. 1; 1 is exact (SOLE's conservative cache).

    Args:
        spec: of a stream with REPORT EVERY and MAX SPEED.
    """
    assert spec.max_speed is not None and spec.report_every_us is not None, "RETAIN SIGNIFICANT needs both"
    seconds = (2 * spec.report_every_us + 3 * tick_us) / 1e6
    return float(factor * spec.max_speed * seconds)
