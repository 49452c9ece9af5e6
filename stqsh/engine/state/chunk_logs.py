"""Store the chunks of batches as concatenated compressed bytes: logs of slots, and seeds of dealers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from stqsh.spec.chunk import CHUNK, Chunk, from_table, to_table

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # payloads are a single column


def pack_chunks(chunks: list[Chunk]) -> pa.Buffer:
    """Return the chunks of a batch as compressed bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, CHUNK, options=_LZ4) as writer:
        writer.write_table(to_table(chunks))
    return sink.getvalue()


def unpack_chunks(content: bytes | memoryview) -> list[Chunk]:
    """Read the chunks of a batch back."""
    [chunks] = unpack_logs(content)
    return chunks


def unpack_logs(content: bytes | memoryview) -> Iterator[list[Chunk]]:
    """Yield the chunks of each batch from concatenated outputs of `pack_chunks`."""
    source = pa.BufferReader(pa.py_buffer(content))
    while source.tell() < source.size():
        yield from_table(pa.ipc.open_stream(source).read_all())
