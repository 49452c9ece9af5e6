"""The extent of an event stream's records, for routing by space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.routing.initial_routing import coarse_grid, sampled_grid
from stqsh.routing.table import RoutingTable
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.replay_store.manifest import Manifest
from stqsh.spec.chunk import columns_schema
from stqsh.spec.stream import FAR_AWAY, StreamSpec

#: The number of places in the sample, evenly spaced over the whole store.
SAMPLE = 4096
#: The share of the sample's coordinates dropped at either end, because a few remote records, such as (0, 0),
#: would make all other cells too large. Records outside belong to a border cell.
_OUTLIERS = 0.005
#: The margin of bounds around the sample: as a share of its width, and at least.
_MARGIN, _LEAST = 0.05, 1e-6


def with_extent(
    directory: Path, manifest: Manifest, layout: RecordSchema, declared: Sequence[float] | None
) -> Manifest:
    """Return a store's manifest with bounds and sample; `declared` are the BOUNDS of the statement."""
    places = sample_places(directory, manifest, layout)
    bounds = np.clip(declared if declared is not None else bounds_of(places), -FAR_AWAY, FAR_AWAY)
    x1, y1, x2, y2 = bounds.tolist()
    sample = tuple((x, y) for x, y in places.tolist())
    return replace(manifest, bounds=(x1, y1, x2, y2), sample=sample, has_coarse_grid=False)


def initial_table(manifest: Manifest | None, stream: StreamSpec, slots: int) -> RoutingTable | None:
    """Return the routing of a stream before its first REPARTITION; None while the stream is being read.

    Live events are dealt by their keys, so that one slot gets all records of a key and can detect
    duplicates.
    """
    if stream.is_live:
        return RoutingTable.by_object(slots)
    if manifest is None:
        return None
    if manifest.bounds is None:
        return RoutingTable.by_object(slots)
    lay = coarse_grid if manifest.has_coarse_grid else sampled_grid
    return lay(manifest.bounds, manifest.sample, slots)


def sample_places(directory: Path, manifest: Manifest, layout: RecordSchema) -> NDArray[np.float64]:
    """Read the places of `SAMPLE` rows, or of all rows if there are fewer, float64 (m, 2)."""
    rows = sample_rows(directory, manifest, [layout.x, layout.y])
    return np.column_stack([column.to_numpy() for column in rows.columns])


def sample_rows(directory: Path, manifest: Manifest, columns: Sequence[str], count: int = SAMPLE) -> pa.Table:
    """Read some columns of `count` evenly spaced rows, including the first and the last, or of all rows."""
    gone = manifest.gone_rows
    wanted = np.unique(np.linspace(gone, max(gone, manifest.rows - 1), count).astype(np.int64))
    schema = columns_schema(manifest.columns)
    pieces = [schema.empty_table().select(columns)]
    before = gone
    for segment in manifest.segments:
        mine = wanted[(wanted >= before) & (wanted < before + segment.rows)] - before
        before += segment.rows
        with pa.memory_map(str(directory / segment.file)) as mapped:
            batch = pa.ipc.open_file(mapped).get_batch(0).select(columns).take(mine)
            pieces.append(pa.Table.from_batches([batch]))
    return pa.concat_tables(pieces)


def bounds_of(places: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Return x1, y1, x2, y2 around most places, float64 (m, 2); the area is never empty."""
    if not len(places):
        return (0.0, 0.0, 1.0, 1.0)
    low = np.quantile(places, _OUTLIERS, axis=0, method="lower")
    high = np.quantile(places, 1 - _OUTLIERS, axis=0, method="higher")
    with np.errstate(over="ignore"):  # `with_extent` clips infinite bounds
        margin = np.maximum((high - low) * _MARGIN, np.maximum(np.abs(high), 1.0) * _LEAST)
    x1, y1 = (low - margin).tolist()
    x2, y2 = (high + margin).tolist()
    return (x1, y1, x2, y2)
