"""Compute the derived columns of records when they are read."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from stqsh.core.conditions.evaluation import compute
from stqsh.core.conditions.resolver import Located, Resolver
from stqsh.core.conditions.user_functions import by_row
from stqsh.core.state.slot_state import SlotState
from stqsh.sources.formats.pyarrow_typing import Array
from stqsh.spec.expression import Expr

_UTC = pa.timestamp("us", tz="UTC")


def compute_column(
    value: Expr, kind: str, columns: Mapping[str, Array], location: Located
) -> tuple[Array, dict[int, str]]:
    """Return the values of a derived column, (n,), and why functions failed for rows that have none.

    A value depends on its own row only, so it is the same however records are divided into blocks.

    Args:
        value: the bound expression; it reads neither NOW nor tables nor named regions.
        kind: the type of the column.
        columns: the columns before it, in their types, (n,) each, at least one.
        location: which of them are the location.
    """
    with by_row() as failed:
        found = compute(value, columns, 0, Resolver(SlotState.fresh(0), location))
    if kind == "TIMESTAMP":
        found = found.view(_UTC)  # expressions compute with µs
    return found, {row: why for row, why in failed.items() if not found[row].is_valid}
