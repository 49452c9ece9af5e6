"""A slot's files: what the head tells of the replay stores."""

from __future__ import annotations

from pathlib import Path

from stqsh.engine.state.file_store import FileStore, SlotMeta, first_logged_rows
from stqsh.spec.chunk import Chunk, ChunkOrder
from stqsh.spec.payload_refs import Reference
from stqsh.storage.blobs import home_blobs


def named(stream: int, start: int) -> Chunk:
    """A chunk of a log that names rows from `start` on."""
    payload = Reference("", 0, 0, {"slice": [stream, start, start + 10, 1, []]}).packed()
    return Chunk(0, stream, "records", ChunkOrder(number=1), 1, 1, 10, payload)


def batch(folder: Path, number: int, *chunks: Chunk, snapshot: bool = False) -> None:
    store = FileStore.beside_head(home_blobs(folder.parent.parent), folder.name, number, number - 1)
    meta = SlotMeta(version=store.read_meta().version + 1)
    if snapshot:
        store.replace(meta.version, [b"arrays"])
    else:
        store.append(meta.version, list(chunks))
    store.write_meta(meta)


def named_rows(home: Path) -> dict[int, int]:
    return first_logged_rows(home / "state")


def versions(slot: Path) -> list[str]:
    """The files of a slot without the part of their names that tells attempts apart."""
    return sorted(".".join(path.name.split(".")[:2]) for path in slot.iterdir())


def test_rows_are_named_until_no_state_has_a_log_with_them(tmp_path: Path) -> None:
    assert named_rows(tmp_path) == {}
    slot = tmp_path / "state" / "evaluate-0"
    batch(slot, 0, named(3, 50), named(3, 40), Chunk(0, 3, "commands", ChunkOrder(), 1, 1, 1, b"{}"))
    batch(slot, 1, named(3, 60), named(4, 7))
    assert named_rows(tmp_path) == {3: 40, 4: 7}
    batch(slot, 2, snapshot=True)
    assert named_rows(tmp_path) == {3: 40, 4: 7}, "the batch before may be where the slot goes on"
    batch(slot, 3, named(3, 80))
    assert named_rows(tmp_path) == {3: 80}


def test_a_repeated_batch_names_what_the_one_before_it_named(tmp_path: Path) -> None:
    slot = tmp_path / "state" / "evaluate-0"
    batch(slot, 0, named(3, 10))
    batch(slot, 1, snapshot=True)
    batch(slot, 1, named(3, 20))
    batch(slot, 2, named(3, 30))
    assert named_rows(tmp_path) == {3: 10}


def test_the_slot_that_is_farthest_behind_counts(tmp_path: Path) -> None:
    for number, start in enumerate((30, 20, 25)):
        batch(tmp_path / "state" / f"evaluate-{number}", 0, named(3, start))
    assert named_rows(tmp_path) == {3: 20}


def test_files_that_no_state_needs_are_deleted_however_often_there_are_snapshots(tmp_path: Path) -> None:
    slot = tmp_path / "state" / "evaluate-0"
    batch(slot, 0, named(3, 10))
    for number in range(1, 8):
        batch(slot, number, snapshot=True)
    assert versions(slot) == ["head", "snapshot.7", "snapshot.8"]
    batch(slot, 7, snapshot=True)  # the state before the last batch is still there
    assert versions(slot) == ["head", "snapshot.7", "snapshot.8", "snapshot.8"]
    for number in range(8, 11):
        batch(slot, number, named(3, number))
    assert versions(slot) == ["head", "log.10", "log.11", "log.9", "snapshot.8", "snapshot.8"]
    for number in range(11, 13):
        batch(slot, number, snapshot=True)
    batch(slot, 13, named(3, 13))
    assert versions(slot) == ["head", "log.14", "snapshot.13"], "what a lost attempt has left goes, too"
