"""Chunks as rows of Spark: the columns of CHUNK and `slot_key`, by which Spark groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from stqsh.engine.spark.spark_internals import slot_keys
from stqsh.spec.chunk import CHUNK, Chunk, chunk_columns, chunks_of_columns, to_table

if TYPE_CHECKING:
    import pandas as pd

#: SPARK_SCHEMA as an Arrow schema; Spark treats all columns as nullable.
ARROW_SCHEMA = pa.schema([*(field.with_nullable(True) for field in CHUNK), pa.field("slot_key", pa.int32())])
#: Chunks are handed to Spark in groups of about this many payload bytes.
GROUP_BYTES = 64 << 20


def to_batch(chunks: list[Chunk], slots: int) -> pa.RecordBatch:
    """Return chunks as one record batch of ARROW_SCHEMA."""
    keys = slot_keys(slots)
    table = to_table(chunks).append_column("slot_key", pa.array([keys[c.slot] for c in chunks], pa.int32()))
    return pa.RecordBatch.from_arrays([c.combine_chunks() for c in table.columns], schema=ARROW_SCHEMA)


def to_frame(chunks: list[Chunk], slots: int) -> pd.DataFrame:
    """Return chunks as a data frame, the output type of Spark's operators."""
    import pandas as pd

    keys = slot_keys(slots)
    return pd.DataFrame({**chunk_columns(chunks), "slot_key": [keys[chunk.slot] for chunk in chunks]})


def from_frames(frames: Iterable[pd.DataFrame]) -> Iterator[Chunk]:
    """Yield the chunks of an operator's input data frames."""
    for frame in frames:
        yield from chunks_of_columns(frame[name].tolist() for name in CHUNK.names)


def in_groups(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Group chunks so that the payloads of a group are at most about GROUP_BYTES."""
    some: list[Chunk] = []
    size = 0
    for chunk in chunks:
        some.append(chunk)
        size += len(chunk.payload)
        if size >= GROUP_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
