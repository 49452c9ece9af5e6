"""Measure what the files of a stream hold: all records of small ones, a sample of large ones."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Floats
from stqsh.sources.dead_letters import read_dead_letters
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.replay_store.manifest import Manifest, read_manifest
from stqsh.sources.replay_store.spatial_extent import sample_rows
from stqsh.sources.source_files import SourceFile, file_source, find_files, format_of, read_group
from stqsh.spec.source_facts import SourceFacts
from stqsh.spec.stream import Bounds, FileSourceSpec, StreamSpec

READ_WHOLE = 12 << 20
"""Sources of at most so many bytes of text are read whole."""
#: Of larger ones so many bytes of text of so many files are read: from their beginning and, of plain text,
#: from their end.
_SAMPLED_BYTES, _SAMPLED_FILES = 6 << 20, 8
#: The estimated bytes of text in a byte of a compressed or columnar file whose size is not known.
_INFLATION = 6
#: The most rows of a store whose objects are counted.
_COUNTED_ROWS = 1 << 21
_TEXTS = ("csv", "jsonl")
#: The share of places at either end that does not count where it would more than double the extent.
_OUTLIERS = 0.005
_MUCH_WIDER = 2.0
_ISIZE = 4


class _Sample(NamedTuple):
    """Files to read, the bytes of text in them, and those in all files of the source."""

    files: list[SourceFile]
    read: int
    total: int


def measure_files(spec: StreamSpec) -> SourceFacts | None:
    """Measure the records of a stream of files, of large ones by a sample; None where there are none.

    Raises:
        SourceError: there is no file, its format is unknown, or a declared column is missing.
    """
    source, layout = file_source(spec), RecordSchema.of(spec)
    files = find_files(source)
    sizes = [text_size(file) for file in files]
    if sum(sizes) <= READ_WHOLE:
        return _measured(read_group(files, source, layout), spec, layout)
    with TemporaryDirectory(prefix="stqsh-") as scratch:
        sample = _sampled(files, sizes, source, Path(scratch))
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
    )


def measure_store(directory: Path, spec: StreamSpec) -> SourceFacts | None:
    """Measure the records of a stream that has been read, as its store has them; None where there are none.

    Their number and times are exact, and the extent is that of a sample.

    Raises:
        DamagedFileError: the store is not what was written.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        return None
    first = next(read_dead_letters(directory), None)
    reason = "" if first is None else first.reason
    sample = sample_rows(directory, manifest, [spec.x, spec.y, spec.time])
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
    if spec.is_event or manifest.gone_rows or manifest.rows > _COUNTED_ROWS:
        return None
    keys = []
    for segment in manifest.segments:
        with pa.memory_map(str(directory / segment.file)) as mapped:
            keys.append(pc.unique(pa.ipc.open_file(mapped).get_batch(0).column(spec.key)))
    return int(pc.count_distinct(pa.chunked_array(keys)).as_py())


def text_size(file: SourceFile) -> int:
    """Return the bytes of text in a file: what gzip says of it, or an estimate for other compressed files."""
    suffix = file.path.suffix.lower()
    if suffix == ".gz" and file.size > _ISIZE:
        with file.path.open("rb") as content:
            content.seek(-_ISIZE, 2)
            size = int.from_bytes(content.read(_ISIZE), "little")
        return size if size >= file.size else file.size * _INFLATION
    return file.size * (_INFLATION if suffix in (".zst", ".parquet", ".pq", ".gz") else 1)


def _rounded(count: float) -> int:
    """Return an estimate with two digits.

    >>> _rounded(612_345), _rounded(7)
    (610000, 7)
    """
    return int(float(f"{count:.2g}"))


# -- a sample of files ---------------------------------------------------------------------------------------


def _sampled(
    files: Sequence[SourceFile], sizes: Sequence[int], source: FileSourceSpec, folder: Path
) -> _Sample:
    """Return some files of a source, at even distances; `folder` gets excerpts of large ones."""
    chosen = np.unique(np.linspace(0, len(files) - 1, _SAMPLED_FILES).astype(np.int64)).tolist()
    budget = _SAMPLED_BYTES // len(chosen)
    found, read = [], 0
    for number in chosen:
        file = files[number]
        size = min(sizes[number], budget)
        found.append(_excerpt(file, source, size, folder) if size < sizes[number] else file)
        read += size
    return _Sample(found, read, sum(sizes))


def _excerpt(file: SourceFile, source: FileSourceSpec, size: int, folder: Path) -> SourceFile:
    """Write an excerpt of about `size` bytes of a text file; other files are returned as they are."""
    if format_of(file.path, source) not in _TEXTS or file.path.suffix.lower() == ".zst":
        return file
    is_packed = file.path.suffix.lower() == ".gz"
    name = file.path.name.removesuffix(file.path.suffix) if is_packed else file.path.name
    path = folder / f"{file.index}-{name}"
    with (gzip.open if is_packed else open)(file.path, "rb") as content, path.open("wb") as excerpt:
        head = content.read(size if is_packed else size // 2)
        excerpt.write(head[: head.rfind(b"\n") + 1])
        if not is_packed:
            content.seek(-(size - size // 2), 2)
            content.readline()
            shutil.copyfileobj(content, excerpt)
    return SourceFile(file.index, path, path.stat().st_size)


# -- measures ------------------------------------------------------------------------------------------------


def _measured(parts: Iterable[ParsedRecords], spec: StreamSpec, layout: RecordSchema) -> SourceFacts | None:
    records, dead, reason = 0, 0, ""
    times: list[int] = []
    keys: list[Array] = []
    places: list[tuple[Floats, Floats]] = []
    for part in parts:
        dead += len(part.dead)
        reason = reason or (part.dead[0].reason if part.dead else "")
        if not len(part.times):
            continue
        records += len(part.times)
        times += [int(part.times.min()), int(part.times.max())]
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
    different = int(pc.count_distinct(pa.chunked_array(keys)).as_py())
    return SourceFacts(
        records,
        dead,
        objects=None if spec.is_event else different,
        repeats=1 - different / records,
        first_us=min(times),
        last_us=max(times),
        extent=extent,
        leaves_out=leaves_out,
        reason=reason,
        is_planar=spec.planar,
    )


def _extent(x: Floats, y: Floats) -> tuple[Bounds | None, bool]:
    """Return the extent of places, float64 (n,) each, NaN where there is none, without a few far away.

    Returns:
        the extent, None without places, and whether places are outside of it.
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
