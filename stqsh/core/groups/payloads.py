"""What slots say of groups, as record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from stqsh.core.aggregates.states import States

PART_ROWS = 1 << 17
"""The most rows of groups in a chunk."""


def group_payloads(found: Iterable[States]) -> Iterator[pa.RecordBatch]:
    """Yield the totals and the values of states as record batches, the query's id first."""
    for states in found:
        totals = states.by
        for name in states.totals.column_names:
            totals = totals.append_column(name, states.totals[name])
        yield from totals.combine_chunks().to_batches(PART_ROWS)
        if states.values.num_rows:
            values = states.by.take(states.values["row"])
            for name in states.values.column_names[1:]:
                values = values.append_column(name, states.values[name])
            yield from values.combine_chunks().to_batches(PART_ROWS)
