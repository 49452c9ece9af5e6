"""Measure the content of a stream's files: all records of small files, a sample of large ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.sources.dead_letters import read_dead_letters
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.replay_store.manifest import Manifest, read_manifest
from stqsh.sources.replay_store.spatial_extent import sample_rows
from stqsh.sources.sampling import sampled, text_size
from stqsh.sources.source_files import file_source, find_files, read_group
from stqsh.spec.source_facts import SourceFacts
from stqsh.spec.stream import Bounds, StreamSpec

READ_WHOLE, SAMPLED = 12 << 20, 6 << 20
"""Sources with at most this many bytes of text are read whole; the second is the sample size for others."""
#: The most rows of a store that is read whole, and whose objects are counted.
_WHOLE_STORE = 1 << 19
#: The share of places at either end that is ignored if it would more than double the extent.
_OUTLIERS = 0.005
_MUCH_WIDER = 2.0
#: A wait for the next record is a break if it is this many times as long as usual.
_BREAK = 60


def measure_files(spec: StreamSpec) -> SourceFacts | None:
    """Measure the records of a stream of files, large ones by a sample; None if there are no records.

    Raises:
        SourceError: there is no file, its format is unknown, or a declared column is missing.
    """
    source, layout = file_source(spec), RecordSchema.of(spec)
    files = find_files(source)
    total = sum(map(text_size, files))
    if total <= READ_WHOLE:
        return _measured(read_group(files, source, layout), spec, layout)
    with sampled(files, source, SAMPLED) as sample:
        found = _measured(read_group(sample.files, source, layout), spec, layout)
    if found is None:
        return None
    scale = sample.total / max(sample.read, 1)
    return replace(
        found,
        records=_rounded(found.records * scale),
        dead=_rounded(found.dead * scale),
        is_exact=False,
        objects=None,
        busy_s=found.busy_s * scale,
        last_us=found.last_us if sample.has_ends else None,
    )


def measure_store(directory: Path, spec: StreamSpec) -> SourceFacts | None:
    """Measure the records in the store of a stream that has been read; None if there are no records.

    Their number and times are exact; the extent of a large store is measured by a sample.

    Raises:
        DamagedFileError: a file of the store differs from what was written.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        return None
    first = next(read_dead_letters(directory), None)
    reason = "" if first is None else first.reason
    sample = sample_rows(directory, manifest, [spec.x, spec.y, spec.time], _WHOLE_STORE)
    if not sample.num_rows:
        return SourceFacts(0, manifest.dead, reason=reason) if manifest.dead else None
    x, y = (sample.column(name).to_numpy() for name in (spec.x, spec.y))
    times = sample.column(spec.time).cast(pa.int64()).to_numpy()
    extent, leaves_out = _extent(x, y)
    return SourceFacts(
        manifest.rows,
        manifest.dead,
        objects=_count_objects(directory, manifest, spec),
        first_us=int(times.min()),
        last_us=int(times.max()),
        extent=extent,
        leaves_out=leaves_out,
        reason=reason,
        is_planar=spec.planar,
    )


def _count_objects(directory: Path, manifest: Manifest, spec: StreamSpec) -> int | None:
    """Count the objects of a store; None for events, and for a large store."""
    if spec.is_event or manifest.gone_rows or manifest.rows > _WHOLE_STORE:
        return None
    keys = []
    for segment in manifest.segments:
        with pa.memory_map(str(directory / segment.file)) as mapped:
            keys.append(pc.unique(pa.ipc.open_file(mapped).get_batch(0).column(spec.key)))
    return int(pc.count_distinct(pa.chunked_array(keys)).as_py())


def _rounded(count: float) -> int:
    """Round an estimate to two digits.

    >>> _rounded(612_345), _rounded(7)
    (610000, 7)
    """
    return int(float(f"{count:.2g}"))


# -- measures ------------------------------------------------------------------------------------------------


def _measured(parts: Iterable[ParsedRecords], spec: StreamSpec, layout: RecordSchema) -> SourceFacts | None:
    records, dead, reason = 0, 0, ""
    times: list[NDArray[np.int64]] = []
    keys: list[Array] = []
    places: list[tuple[Floats, Floats]] = []
    for part in parts:
        dead += len(part.dead)
        reason = reason or (part.dead[0].reason if part.dead else "")
        if not len(part.times):
            continue
        records += len(part.times)
        times.append(np.asarray(part.times, np.int64))
        x, y = (
            part.columns[layout.position(name)].cast(pa.float64()).to_numpy(zero_copy_only=False)
            for name in (layout.x, layout.y)
        )
        places.append((x, y))
        keys.append(part.columns[layout.position(layout.key)])
    if not records:
        return SourceFacts(0, dead, reason=reason) if dead else None
    x, y = (np.concatenate(column) for column in zip(*places, strict=True))
    extent, leaves_out = _extent(x, y)
    instants = np.unique(np.concatenate(times))
    different = int(pc.count_distinct(pa.chunked_array(keys)).as_py())
    return SourceFacts(
        records,
        dead,
        objects=None if spec.is_event else different,
        repeats=1 - different / records,
        first_us=int(instants[0]),
        last_us=int(instants[-1]),
        busy_s=_busy_s(instants),
        extent=extent,
        leaves_out=leaves_out,
        reason=reason,
        is_planar=spec.planar,
    )


def _busy_s(instants: NDArray[np.int64]) -> float:
    """Return the seconds between the first and last instant, int64 (n,) ascending, with breaks cut short."""
    waits = np.diff(instants)
    return float(np.minimum(waits, _BREAK * np.median(waits)).sum()) / 1e6 if len(waits) else 0.0


def _extent(x: Floats, y: Floats) -> tuple[Bounds | None, bool]:
    """Return the extent of places, float64 (n,) each, NaN where there is none, excluding a few remote ones.

    Returns:
        The extent, None without places, and whether any places are outside it.
    """
    places = np.column_stack([x, y])
    places = places[~np.isnan(places).any(axis=1)]
    if not len(places):
        return None, False
    whole = np.concatenate([places.min(axis=0), places.max(axis=0)])
    most = np.concatenate(
        [
            np.quantile(places, _OUTLIERS, axis=0, method="lower"),
            np.quantile(places, 1 - _OUTLIERS, axis=0, method="higher"),
        ]
    )
    leaves_out = bool(((whole[2:] - whole[:2]) > _MUCH_WIDER * (most[2:] - most[:2])).any())
    x1, y1, x2, y2 = (most if leaves_out else whole).tolist()
    return (x1, y1, x2, y2), leaves_out
