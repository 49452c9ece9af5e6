"""Answers to snapshots that went through the control log: one file each, from Deliver to the asker.

`answers/<number of the ask>.arrow` in the session's home is a table with one binary column: the packed shares
of the slots. Its metadata hold the step. The asker removes it; files that nobody took are deleted later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from stqsh.fs import replacing
from stqsh.spec.chunk import unpack
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import Progress

FORGOTTEN_AFTER_S = 3600.0


def write_answer(home: SessionHome, ask: int, shares: Sequence[bytes], progress: Progress) -> None:
    """Write the answer to an ask: the slots' packed shares, and the step at which they were made."""
    _forget_old(home)
    metadata = {"step": progress.step, "base_tick": progress.base_tick, "tick_us": progress.tick_us}
    schema = pa.schema([("share", pa.binary())], metadata={"progress": json.dumps(metadata)})
    table = pa.Table.from_arrays([pa.array(shares, pa.binary())], schema=schema)
    home.answers.mkdir(mode=0o700, exist_ok=True)
    with (
        replacing(_file(home, ask)) as path,
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_table(table)


def take_answer(home: SessionHome, ask: int) -> bytes | None:
    """Return the content of an answer's file and delete it; None while there is none."""
    path = _file(home, ask)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    return content


def read_answer(content: bytes) -> tuple[list[pa.RecordBatch], Progress]:
    """Return the slots' shares in an answer, and the step (as step, base_tick and tick_us of a progress)."""
    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
        table = reader.read_all()
    metadata = table.schema.metadata or {}
    shares = [unpack(share) for share in table.column("share").to_pylist() if share is not None]
    return shares, Progress(**json.loads(metadata[b"progress"]))


def _file(home: SessionHome, ask: int) -> Path:
    return home.answers / f"{ask}.arrow"


def _forget_old(home: SessionHome) -> None:
    """Delete the files that nobody took: their askers are gone."""
    oldest = time.time() - FORGOTTEN_AFTER_S
    for path in home.answers.glob("*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()
