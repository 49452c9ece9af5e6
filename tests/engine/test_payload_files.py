"""Large payloads by name: what is put into files comes back as it was, and nothing stale or half is read."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.update_logs import batch_table, log_batch, part

from engine.test_planner import World
from stqsh import routing
from stqsh.checksums import DamagedFileError
from stqsh.engine.ingest.record_replay import (
    RecordReplayError,
    replay_records,
    replay_reference,
    shorten_for_log,
    shorten_read,
)
from stqsh.engine.ingest.task_reader import chosen_rows, chunks
from stqsh.engine.planning.planner import Planner
from stqsh.engine.planning.tasks import SourceTask
from stqsh.engine.state import payload_files as spooling
from stqsh.engine.state.chunk_logs import pack_chunks, unpack_chunks
from stqsh.engine.state.payload_files import (
    PayloadBlobs,
    PayloadFolders,
    Spool,
    load_payloads,
    open_writer,
)
from stqsh.spec.chunk import Chunk, ChunkOrder, from_table, pack, to_table
from stqsh.spec.payload_refs import reference_in
from stqsh.storage.blobs import Blobs, home_blobs
from stqsh.storage.control_log import ControlDb
from stqsh.storage.update_log.files import logged_files
from stqsh.storage.update_log.reader import UpdateLog

LEAST = 100
KINDS = st.sampled_from(["records", "partial/nearest", "rows", "updates"])


@pytest.fixture
def spool(tmp_path: Path) -> PayloadFolders:
    return folders_of(tmp_path)


def chunk(kind: str, payload: bytes, number: int = 0) -> Chunk:
    return Chunk(0, 1, kind, ChunkOrder(number=number), 1, 2, 3, payload)


def sent(spool: PayloadFolders | None, chunks: list[Chunk]) -> list[Chunk]:
    """Chunks as they travel."""
    with open_writer(spool, "evaluate-0") as outgoing:
        return [outgoing.put(chunk) for chunk in chunks]


def content(chunks: list[Chunk]) -> list[Chunk]:
    return [replace(chunk, payload=bytes(chunk.payload)) for chunk in chunks]


def blobs_of(home: Path) -> PayloadBlobs:
    """The payloads of a home on a cluster."""
    made = PayloadBlobs(home_blobs(home / "storage").below("transit"), home / "updates", LEAST)
    made.log.mkdir()
    made.prepare()
    return made


def folders_of(home: Path) -> PayloadFolders:
    """The payloads of a home on one machine."""
    made = PayloadFolders(home, home / "shared", LEAST)
    made.log.mkdir()
    made.prepare()
    return made


@pytest.mark.parametrize("make", [folders_of, blobs_of])
@given(
    st.lists(st.tuples(KINDS, st.binary(max_size=3 * LEAST).map(lambda payload: b"{" + payload)), max_size=8)
)
def test_what_goes_by_name_comes_back_as_it_was(
    tmp_path_factory: Any, make: Callable[[Path], Spool], told: list[tuple[str, bytes]]
) -> None:
    spool = make(tmp_path_factory.mktemp("home"))
    chunks = [chunk(kind, payload, number) for number, (kind, payload) in enumerate(told)]
    travelling = sent(spool, chunks)
    assert content(load_payloads(travelling, spool)) == chunks
    by_name = [reference_in(one.payload) is not None for one in travelling]
    assert by_name == [len(payload) >= LEAST for _, payload in told]


@pytest.mark.parametrize("make", [folders_of, blobs_of])
def test_columns_that_come_by_name_are_aligned(tmp_path: Path, make: Callable[[Path], Spool]) -> None:
    spool = make(tmp_path)
    batches = [pa.record_batch({"a": pa.nulls(n, pa.int8())}) for n in (401, 777, 500)]
    for one in load_payloads(sent(spool, [chunk("records", pack(batch)) for batch in batches]), spool):
        assert pa.py_buffer(one.payload).address % 64 == 0


def test_two_attempts_at_a_task_write_two_files(spool: PayloadFolders) -> None:
    first, second = (sent(spool, [chunk("records", byte * LEAST)])[0] for byte in (b"a", b"b"))
    assert bytes(load_payloads([first], spool)[0].payload) == b"a" * LEAST
    assert bytes(load_payloads([second], spool)[0].payload) == b"b" * LEAST


def test_what_was_opened_outlives_its_file(spool: PayloadFolders) -> None:
    (one,) = load_payloads(sent(spool, [chunk("records", b"x" * LEAST)]), spool)
    spool.clear()
    assert list(spool.transit.iterdir()) == []
    assert bytes(one.payload) == b"x" * LEAST


def test_without_a_spool_everything_travels_in_its_chunk() -> None:
    chunks = [chunk("updates", b"x" * 2 * LEAST)]
    assert sent(None, chunks) == chunks == load_payloads(chunks, None)


def test_a_clock_is_never_parted_from_its_chunk(spool: PayloadFolders) -> None:
    chunks = [chunk("clock", b"x" * 2 * LEAST)]
    assert sent(spool, chunks) == chunks


def test_a_reference_without_a_spool_is_told(spool: PayloadFolders) -> None:
    with pytest.raises(ValueError, match="there is no spool"):
        load_payloads(sent(spool, [chunk("records", b"x" * LEAST)]), None)


def test_where_there_is_no_room_left_payloads_stay_in_their_chunks(
    spool: PayloadFolders,
) -> None:
    spool = replace(spool, reserve=1 << 62)
    chunks = [chunk("records", b"x" * LEAST), chunk("updates", b"y" * LEAST)]
    travelling = sent(spool, chunks)
    assert travelling[0] == chunks[0]
    assert reference_in(travelling[1].payload) is not None


def test_a_file_that_cannot_take_a_payload_keeps_those_before(
    spool: PayloadFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = spooling._write_all

    def full(descriptor: int, payload: bytes, at: int) -> None:
        write(descriptor, payload[: LEAST // 2], at)
        if at:
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(spooling, "_write_all", full)
    chunks = [chunk("records", byte * LEAST, n) for n, byte in enumerate((b"a", b"b", b"c"))]
    travelling = sent(spool, chunks)
    assert [reference_in(one.payload) is not None for one in travelling] == [True, False, False]
    assert travelling[1:] == chunks[1:]


def test_a_folder_that_is_gone_costs_nothing_but_time(spool: PayloadFolders) -> None:
    spool.transit.rmdir()
    chunks = [chunk("records", b"x" * LEAST)]
    assert sent(spool, chunks) == chunks


def test_a_start_clears_what_another_engine_left(spool: PayloadFolders) -> None:
    sent(spool, [chunk("records", b"x" * LEAST), chunk("updates", b"x" * LEAST)])
    placed = spool.log / "000000000007.evaluate-0.bulk"
    placed.write_bytes(b"in place")
    spool.prepare()
    assert [*spool.transit.iterdir(), *spool.log.iterdir()] == [placed]


def test_large_blobs_are_written_one_after_the_other_and_read_in_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "_LARGE_BLOB", 5 * LEAST)
    monkeypatch.setattr(spooling, "_GAP", LEAST)
    spool = blobs_of(tmp_path)
    chunks = [chunk("records", bytes([number]) * LEAST, number) for number in range(1, 13)]
    travelling = sent(spool, chunks)
    files = {found.file for one in travelling if (found := reference_in(one.payload))}
    assert spool.blobs.names() == sorted(files) and 2 < len(files) < 6
    asked: list[tuple[str, int, int]] = []
    read = Blobs.read_range
    monkeypatch.setattr(Blobs, "read_range", lambda blobs, *span: asked.append(span) or read(blobs, *span))
    assert content(load_payloads(travelling[::-1], spool)) == chunks[::-1]
    assert {file for file, *_ in asked} == files and len(asked) == len(files)
    asked.clear()
    assert content(load_payloads([travelling[0], travelling[3]], spool)) == [chunks[0], chunks[3]]
    assert len(asked) == 2, "what is between them would be read for nothing"


def test_blobs_in_transit_go_with_their_batch(tmp_path: Path) -> None:
    spool = blobs_of(tmp_path)
    sent(spool, [chunk("records", b"x" * LEAST), chunk("updates", b"x" * LEAST)])
    spool.clear()
    for thread in threading.enumerate():
        if thread.name == "payloads":
            thread.join()
    assert spool.blobs.names() == []


def test_a_payload_of_the_update_log_that_was_damaged_on_its_way_is_told(tmp_path: Path) -> None:
    spool = blobs_of(tmp_path)
    travelling = to_table(sent(spool, [chunk("updates", b"x" * LEAST)]))
    [name] = spool.blobs.names()
    spool.blobs.put(name, [b"y" * LEAST])
    with pytest.raises(DamagedFileError, match="evaluate-0"):
        spool.bring(travelling)
    assert not [*spool.log.iterdir()]


@pytest.mark.parametrize("make", [folders_of, blobs_of])
def test_the_update_log_reads_bulk_as_it_reads_what_lies_within(
    make: Callable[[Path], Spool], tmp_path: Path
) -> None:
    spool = make(tmp_path)
    updates = [(1 + n // 50, n % 7, 1, 0, (f"k{n}", n / 2)) for n in range(100)]
    table = batch_table(1, 2, part(updates))
    (tmp_path / "within" / "updates").mkdir(parents=True)
    within, beside = ControlDb(tmp_path / "within", create=True), ControlDb(tmp_path, create=True)
    log_batch(within, 4, table)
    for _ in range(2):  # a batch that Spark repeats
        travelling = sent(spool, [*from_table(table), chunk("timing", b"{}")])
        spool.bring(to_table(travelling))
        assert log_batch(beside, 4, to_table(travelling))
    assert sorted(file.name for file in spool.log.iterdir()) == [
        "000000000004.arrow",
        "000000000004.evaluate-0.bulk",
    ]
    ((first,),), ((second,),) = (UpdateLog(log, lambda _: "oid").read(-1, 9) for log in (within, beside))
    assert first.table.equals(second.table)
    (many,), (few,) = logged_files(within), logged_files(beside)
    assert few.size < many.size and few.total > many.size


# -- records made again --------------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, slots=2, max_records=1000)


def tasks_of(world: World) -> list[SourceTask]:
    """The tasks of a batch with records, of which some go to every slot."""
    world.query(world.stream([(5 + n // 100, f"k{n % 90}") for n in range(600)]), focal="k7")
    world.log("run", mode="steps", n=4)
    start, end = world.at, world.planner.latest(world.at, 0)
    return Planner(world.home, 2, 1000).plan(start, end)


def kept_of(tasks: list[SourceTask], spool: PayloadFolders) -> tuple[list[Chunk], list[Chunk]]:
    """All chunks of tasks, and what a log keeps of them."""
    whole = [(task, chunk) for task in tasks for chunk in chunks(task)]
    with open_writer(spool, "source") as outgoing:
        travelling = [outgoing.put(chunk, replay_reference(task, chunk)) for task, chunk in whole]
    told = [chunk for _, chunk in whole]
    logged = [
        shorten_for_log(*pair) for pair in zip(travelling, load_payloads(travelling, spool), strict=True)
    ]
    return told, unpack_chunks(pack_chunks(logged).to_pybytes())


def test_records_are_kept_by_name_and_made_again_as_they_were(world: World, spool: PayloadFolders) -> None:
    told, kept = kept_of(tasks_of(world), spool)
    by_name = {chunk.kind for chunk in kept if reference_in(chunk.payload) is not None}
    assert by_name == {"records", "focal"}
    spool.clear()
    assert replay_records(home_blobs(world.home), kept) == told


def test_records_that_readers_fold_are_one_chunk_and_made_again_as_they_were(world: World) -> None:
    tasks = [replace(task, folds=True) for task in tasks_of(world)]
    told = [(task, chunk) for task in tasks for chunk in chunks(task)]
    whole = [chunk.batch.num_rows for _, chunk in told if chunk.batch is not None]
    assert sum(whole) == sum(chunk.rows for _, chunk in told if chunk.kind == "records")
    for least in (0, LEAST, 1 << 20):
        logged = [shorten_read(task, chunk, least) for task, chunk in told]
        kept = unpack_chunks(pack_chunks(logged).to_pybytes())
        made = replay_records(home_blobs(world.home), kept)
        assert [chunk.packed() for chunk in made] == [chunk.packed() for _, chunk in told]


VALUES = {
    pa.string(): st.sampled_from(["", "a", "bc"]),
    pa.int64(): st.integers(-5, 5),
    pa.int32(): st.integers(-5, 5),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.timestamp("us", tz="UTC"): st.integers(0, 5),
}


@given(st.data(), st.integers(0, 9), st.integers(0, 3))
def test_chosen_rows_are_those_of_a_filter(data: st.DataObject, count: int, skipped: int) -> None:
    columns = [
        data.draw(st.lists(value | st.none() if nulls else value, min_size=count, max_size=count))
        for value in VALUES.values()
        for nulls in (False, True)
    ]
    types = [kind for kind in VALUES for _ in range(2)]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))]).slice(skipped)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))), np.bool_)
    assert chosen_rows(batch, np.flatnonzero(chosen)).equals(batch.filter(pa.array(chosen)))


def test_a_store_that_was_changed_is_told(world: World, spool: PayloadFolders) -> None:
    _, kept = kept_of(tasks_of(world), spool)
    only = [chunk for chunk in kept if chunk.kind == "records"][:1]
    world.store(only[0].stream, [(5, "k1")])
    with pytest.raises(RecordReplayError, match="has been changed"):
        replay_records(home_blobs(world.home), only)


def test_records_that_were_dealt_by_another_routing_are_not_dealt_again(
    world: World, spool: PayloadFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, kept = kept_of(tasks_of(world), spool)
    only = [chunk for chunk in kept if chunk.kind == "records"][:1]
    monkeypatch.setattr(routing, "VERSION", 8)
    monkeypatch.setattr(routing, "UNCROSSED", 7)
    with pytest.raises(RecordReplayError, match="routing 1, which this version does not know"):
        replay_records(home_blobs(world.home), only)
