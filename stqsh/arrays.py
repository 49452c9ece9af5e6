"""Types of numpy arrays for signatures; docstrings state shapes, and the element type of an `Array`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of any element type."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""A selection: True for each selected row."""

Floats: TypeAlias = npt.NDArray[np.float64]
"""Numbers such as coordinates."""
