"""Read layers of GeoPackage, Shapefile and FlatGeobuf; a row's number, from 1, serves as its line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.errors import OptionError, SourceError
from stqsh.sources.formats.optional_packages import needed
from stqsh.sources.formats.parquet_file import locate_rows
from stqsh.sources.formats.places import GEOMETRY
from stqsh.sources.formats.pyarrow_typing import Array
from stqsh.sources.formats.record_parser import RowBlock
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names, near
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.spec.stream import Options

LAYER_FORMATS = ("gpkg", "shapefile", "fgb")
"""The formats that this module reads."""
#: The number of rows that are read together, and the number that determines the types of columns.
_BLOCK_ROWS, _FIRST_ROWS = 1 << 16, 1000


def read_layer_blocks(
    path: Path, layout: RecordSchema, options: Options, size: int | None = None
) -> Iterator[RowBlock]:
    """Read the declared columns of a layer in blocks of at most `size` rows; `geometry` is WKB.

    Raises:
        SourceError: a declared column is missing, or pyogrio is not installed.
        OptionError: there is no such layer.
        OSError: the file cannot be read.
    """
    check_options(options, ("layer", *TIME_OPTIONS), "FORMAT GPKG and its like")
    present = layer_schema(path, options).names
    names = [present[place] for place in match_names(layout.names, present, str(path))]
    first_row = 1
    with _opened(path, options, min(size or _BLOCK_ROWS, _BLOCK_ROWS)) as batches:
        for number, batch in enumerate(batches):
            rows = pa.RecordBatch.from_arrays([batch.column(name) for name in names], names=names)
            ordinals = np.arange(rows.num_rows, dtype=np.int64)
            yield RowBlock(
                list(rows.columns), ordinals, partial(locate_rows, rows, first_row), number, size=rows.nbytes
            )
            first_row += rows.num_rows


def layer_schema(path: Path, options: Options) -> pa.Schema:
    """Return the columns of a layer, with the geometry column last. Raises as `read_layer_blocks` does."""
    with _opened(path, options, 1) as batches:
        return batches.schema


def first_columns(path: Path, options: Options) -> dict[str, Array]:
    """Return the columns of a layer's first rows, by name. Raises as `read_layer_blocks` does."""
    with _opened(path, options, _FIRST_ROWS) as batches:
        first = next(iter(batches), pa.RecordBatch.from_pylist([], batches.schema))
    return dict(zip(first.schema.names, first.columns, strict=True))


def layer_crs(path: Path, options: Options) -> str | None:
    """Return the reference system of a layer, None if it has none. Raises as `read_layer_blocks` does."""
    pyogrio = _pyogrio(path)
    with _errors(pyogrio, path):
        found = pyogrio.read_info(path, layer=_layer(pyogrio, path, options))["crs"]
    return None if found is None else str(found)


class _Batches:
    """The batches of a layer; the geometry column has the same name for all formats."""

    def __init__(self, reader: pa.RecordBatchReader, geometry: str) -> None:
        self._reader = reader
        names = [GEOMETRY if name == geometry else name for name in reader.schema.names]
        fields = [field.with_name(name) for field, name in zip(reader.schema, names, strict=True)]
        self.schema = pa.schema(fields)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


@contextmanager
def _opened(path: Path, options: Options, size: int) -> Iterator[_Batches]:
    pyogrio = _pyogrio(path)
    with _errors(pyogrio, path):
        layer = _layer(pyogrio, path, options)
        with pyogrio.open_arrow(path, layer=layer, batch_size=size, use_pyarrow=True) as (meta, reader):
            yield _Batches(reader, meta["geometry_name"] or "wkb_geometry")


def _pyogrio(path: Path) -> Any:
    return needed("pyogrio", f"{path.name} is of a format that")


@contextmanager
def _errors(pyogrio: Any, path: Path) -> Iterator[None]:
    """Convert GDAL's errors about a file into `OSError`."""
    kinds = (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, pyogrio.errors.FieldError)
    try:
        yield
    except kinds as problem:
        text = str(problem).splitlines()[0].partition(";")[0].replace(f"'{path}' ", "").rstrip(".")
        raise OSError(text) from problem


def _layer(pyogrio: Any, path: Path, options: Options) -> str:
    """Return the layer to read: the one that the options name, or the only one."""
    names = [str(name) for name in pyogrio.list_layers(path)[:, 0]]
    wanted = options.get("layer")
    if wanted is None and len(names) > 1:
        hint = f"say which one: FORMAT GPKG (layer => '{names[0]}')"
        raise SourceError(f"{path} has several layers: {', '.join(names)}", hint=hint)
    if wanted is None or wanted in names:
        return names[0] if wanted is None else str(wanted)
    hint = near(str(wanted), names) or f"its layers are {', '.join(names)}"
    raise OptionError(f"{path} has no layer {wanted!r}", "layer", hint=hint)
