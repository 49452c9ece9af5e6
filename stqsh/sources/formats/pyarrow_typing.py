"""Names for pyarrow's untyped corners: the published stubs know neither its kernels nor its readers well."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

Array: TypeAlias = "pa.Array[Any]"
nulls: Any = pa.nulls
pc: Any = pyarrow.compute
arrow_csv: Any = pyarrow.csv
arrow_json: Any = pyarrow.json
parquet: Any = pyarrow.parquet
input_stream: Any = pa.input_stream


def one_array(column: pa.ChunkedArray[Any]) -> Array:
    """Return a column of a table as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
