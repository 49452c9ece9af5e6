"""Types for the parts of pyarrow that the published stubs leave untyped."""

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
# These take paths as bytes, too, which need not be UTF-8.
memory_map: Any = pa.memory_map
os_file: Any = pa.OSFile
