"""The types of numpy arrays in signatures; docstrings say shapes, and what an `Array` holds."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of any element type."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Which of some rows are meant."""

Floats: TypeAlias = npt.NDArray[np.float64]
"""Numbers such as coordinates."""
