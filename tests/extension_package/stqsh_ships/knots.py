"""A function of expressions: speeds in knots."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def knots(speeds: "pa.Array[Any]") -> float:
    """Return speeds, which are in metres per second, in knots; the annotation says the type of a value."""
    return pc.multiply(pc.cast(speeds, pa.float64()), 1.9438445)
