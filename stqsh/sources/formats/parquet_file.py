"""Read Parquet files; a row's number, from 1, serves as its line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import SourceError
from stqsh.sources.formats.pyarrow_typing import memory_map, parquet
from stqsh.sources.formats.record_parser import TEXT_LIMIT, RowBlock, RowLocation, python_values
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.spec.stream import Options

#: The number of rows that are parsed together.
BLOCK_ROWS = 200_000


def read_parquet_blocks(
    path: Path, layout: RecordSchema, options: Options, size: int | None = None
) -> Iterator[RowBlock]:
    """Read the declared columns of a Parquet file in blocks of at most `size` rows.

    Raises:
        SourceError: a declared column is missing, or its name occurs more than once.
        OSError, pa.ArrowInvalid: the file cannot be read.
    """
    check_options(options, TIME_OPTIONS, "FORMAT PARQUET")
    with open_parquet(path) as file:
        present = file.schema_arrow.names
        names = [present[place] for place in match_names(layout.names, present, str(path))]
        for name in names:
            if present.count(name) > 1:
                raise SourceError(f"{path} has several columns {name}", hint="a column has a name of its own")
        first_row = 1
        batches = file.iter_batches(size or BLOCK_ROWS, columns=list(dict.fromkeys(names)), use_threads=False)
        for number, batch in enumerate(batches):
            columns = [batch.column(name) for name in names]
            ordinals = np.arange(batch.num_rows, dtype=np.int64)
            yield RowBlock(
                columns, ordinals, partial(locate_rows, batch, first_row), number, size=batch.nbytes
            )
            first_row += batch.num_rows


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file, even if its name is not valid UTF-8, which Arrow rejects in paths."""
    with memory_map(os.fsencode(path)) as source, parquet.ParquetFile(source) as file:
        yield file


def geoparquet_geometry(path: Path) -> tuple[str, str | None] | None:
    """Return the geometry column of a GeoParquet file, and its reference system; None if it has none.

    Raises:
        OSError, pa.ArrowInvalid: the file cannot be read.
    """
    with open_parquet(path) as file:
        geo = orjson.loads((file.schema_arrow.metadata or {}).get(b"geo", b"null"))
    if not isinstance(geo, dict) or geo.get("primary_column") not in geo.get("columns", {}):
        return None
    name = geo["primary_column"]
    crs = geo["columns"][name].get("crs", "OGC:CRS84")
    return name, crs if crs is None or isinstance(crs, str) else orjson.dumps(crs).decode()


def locate_rows(batch: pa.RecordBatch, first_row: int, ordinals: NDArray[np.int64]) -> list[RowLocation]:
    """Return the line numbers, from 1, and the texts of some rows of a batch that begins with `first_row`."""
    rows = zip(*map(python_values, batch.take(ordinals).columns), strict=True)
    return [
        RowLocation(first_row + ordinal, _as_json(dict(zip(batch.schema.names, row, strict=True))))
        for ordinal, row in zip(ordinals.tolist(), rows, strict=True)
    ]


def _as_json(row: Mapping[str, object]) -> str:
    return orjson.dumps(row, default=str).decode()[:TEXT_LIMIT]
