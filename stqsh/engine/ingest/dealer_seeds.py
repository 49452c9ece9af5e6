"""Pass the initial records of a cluster's dealers from the slots to the dealers in blobs, one per dealer.

The blob is in the stream's folder, so it is removed with the stream.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.engine.state.chunk_logs import pack_chunks, unpack_chunks
from stqsh.engine.state.payload_files import Spool, load_payloads
from stqsh.spec.chunk import Chunk, ChunkKind, from_table
from stqsh.storage.blobs import Blobs


def take_seeds(chunks: pa.Table, blobs: Blobs, spool: Spool) -> pa.Table | None:
    """Store the seeds that slots have sent for dealers, and return the other chunks.

    Args:
        chunks: the slots' chunks, a table of the schema CHUNK.
        blobs: the session's files.
        spool: where large payloads are.

    Returns:
        None if there are no seeds; then nothing is stored.
    """
    are_seeds = pc.is_in(chunks["kind"], value_set=pa.array([ChunkKind.DEAL_SEEDS.value]))
    seeds = chunks.filter(are_seeds)
    if not seeds.num_rows:
        return None
    dealers: dict[tuple[int, int], list[Chunk]] = {}
    for chunk in load_payloads(from_table(seeds), spool):
        dealers.setdefault((chunk.stream, chunk.last_step), []).append(chunk)
    for (stream, step), some in dealers.items():
        put_seeds(blobs, stream, step, some)
    return chunks.filter(pc.invert(are_seeds))


def put_seeds(blobs: Blobs, stream: int, step: int, seeds: list[Chunk]) -> None:
    """Store the seeds that slots sent after a step for a stream's dealer."""
    blobs.put(_seeds_file(stream, step), [pack_chunks(seeds)])


def read_seeds(blobs: Blobs, stream: int, step: int) -> list[Chunk]:
    """Return the seeds that slots sent after a step for a stream's dealer.

    Raises:
        DamagedFileError: the blob is missing.
    """
    return unpack_chunks(memoryview(blobs.read(_seeds_file(stream, step))))


def _seeds_file(stream: int, step: int) -> str:
    return f"streams/{stream}/dealer/seeds.{step}"
