"""What dealers of a cluster begin with, on its way from the slots: blobs of the session, one for each dealer.

The folder of a stream has it, so it is removed with the stream.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.engine.state.payload_files import Spool, load_payloads
from stqsh.engine.state.slot_store import pack_chunks, unpack_chunks
from stqsh.spec.chunk import Chunk, ChunkKind, from_table
from stqsh.storage.blobs import Blobs


def take_seeds(chunks: pa.Table, blobs: Blobs, spool: Spool) -> pa.Table | None:
    """Keep what slots have sent for the beginning of dealers, and return the other chunks.

    Args:
        chunks: what the slots have sent, a table of the schema CHUNK.
        blobs: the session's files.
        spool: where large payloads are.

    Returns:
        None if they have sent none; nothing is kept then.
    """
    are_seeds = pc.is_in(chunks["kind"], value_set=pa.array([ChunkKind.DEAL_SEEDS.value]))
    seeds = chunks.filter(are_seeds)
    if not seeds.num_rows:
        return None
    dealers: dict[tuple[int, int], list[Chunk]] = {}
    for chunk in load_payloads(from_table(seeds), spool):
        dealers.setdefault((chunk.stream, chunk.last_step), []).append(chunk)
    for (stream, step), some in dealers.items():
        blobs.put(_seeds_file(stream, step), [pack_chunks(some)])
    return chunks.filter(pc.invert(are_seeds))


def read_seeds(blobs: Blobs, stream: int, step: int) -> list[Chunk]:
    """Return what slots have sent after a step for the beginning of a stream's dealer.

    Raises:
        DamagedFileError: it is gone.
    """
    return unpack_chunks(memoryview(blobs.read(_seeds_file(stream, step))))


def _seeds_file(stream: int, step: int) -> str:
    return f"streams/{stream}/dealer/seeds.{step}"
