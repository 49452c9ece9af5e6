"""Answers to snapshots that a client cannot compute itself: one file each, from the engine to the client.

`answers/<name of the ask>.arrow` in the session's home is a table with one binary column: the packed shares
of the slots. Its metadata contain the step. The client removes it; files that no client takes are deleted
later. A question that went through the control log is named by its number in the log. On a cluster a client
first asks the engine by the file `answers/<name>.ask`, which costs no batch; the engine removes the file, and
may reply that the slots cannot answer.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from stqsh.fs import atomic_write, replacing
from stqsh.spec.chunk import unpack
from stqsh.spec.query import SnapshotSpec
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import Progress

FORGOTTEN_AFTER_S = 3600.0


class LocatedAsk(msgspec.Struct, frozen=True):
    """A question to the slots on their hosts: the snapshot, and the lowest step at which they may answer."""

    spec: SnapshotSpec
    least: int


_ASK = msgspec.json.Decoder(LocatedAsk)


def put_ask(home: SessionHome, spec: SnapshotSpec, least: int) -> str:
    """Ask the engine of a cluster, and return the name of the question."""
    name = uuid.uuid4().hex
    home.answers.mkdir(mode=0o700, exist_ok=True)
    atomic_write(_ask_file(home, name), msgspec.json.encode(LocatedAsk(spec, least)), private=True)
    return name


def withdraw_ask(home: SessionHome, name: str) -> None:
    """Withdraw a question that has not been answered."""
    _ask_file(home, name).unlink(missing_ok=True)


def take_asks(home: SessionHome) -> Iterator[tuple[str, LocatedAsk]]:
    """Yield the questions of clients, and remove their files."""
    for path in home.answers.glob("*.ask"):
        # It was withdrawn, or comes from a client of another version, which waits in vain.
        with suppress(FileNotFoundError, msgspec.DecodeError):
            content = path.read_bytes()
            path.unlink()
            yield path.stem, _ASK.decode(content)


def write_miss(home: SessionHome, ask: str, why: str) -> None:
    """Reply that the slots cannot answer, and why."""
    _write(home, ask, [], {"missed": why})


def write_answer(home: SessionHome, ask: int | str, shares: Sequence[bytes], progress: Progress) -> None:
    """Write the answer to an ask: the slots' packed shares, and the step at which they were made."""
    _forget_old(home)
    found = {"step": progress.step, "base_tick": progress.base_tick, "tick_us": progress.tick_us}
    _write(home, ask, shares, {"progress": json.dumps(found)})


def _write(
    home: SessionHome, ask: int | str, shares: Sequence[bytes], metadata: dict[bytes | str, bytes | str]
) -> None:
    schema = pa.schema([("share", pa.binary())], metadata=metadata)
    table = pa.Table.from_arrays([pa.array(shares, pa.binary())], schema=schema)
    home.answers.mkdir(mode=0o700, exist_ok=True)
    with (
        replacing(_file(home, ask)) as path,
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_table(table)


def take_answer(home: SessionHome, ask: int | str) -> bytes | None:
    """Return the content of an answer's file and delete the file; None while there is none."""
    path = _file(home, ask)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    return content


def read_answer(content: bytes) -> tuple[list[pa.RecordBatch], Progress] | None:
    """Return the slots' shares in an answer, and the step (as the step, base_tick and tick_us of a Progress).

    The result is None if the slots could not answer.
    """
    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
        table = reader.read_all()
    metadata = table.schema.metadata or {}
    if b"missed" in metadata:
        return None
    shares = [unpack(share) for share in table.column("share").to_pylist() if share is not None]
    return shares, Progress(**json.loads(metadata[b"progress"]))


def _file(home: SessionHome, ask: int | str) -> Path:
    return home.answers / f"{ask}.arrow"


def _ask_file(home: SessionHome, name: str) -> Path:
    return home.answers / f"{name}.ask"


def _forget_old(home: SessionHome) -> None:
    """Delete the files that no client took, because their clients are gone."""
    oldest = time.time() - FORGOTTEN_AFTER_S
    for path in home.answers.glob("*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()
