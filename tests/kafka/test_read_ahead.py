"""Reading ahead from a real broker: pieces hold what workers would read, and a session needs none of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from support.kafka import readers_of, send
from support.specs import kafka_stream

import stqsh
from kafka.test_source import Folded, create, execute, row, wait_for
from stqsh.broker.kafka import KafkaBroker
from stqsh.engine.ingest.live_reader import read_live
from stqsh.engine.planning.tasks import LiveAccess, LiveSlice
from stqsh.sources.live.pieces import ReadOrder, piece_named, ready_file
from stqsh.sources.live.protocol import MessageRange, Position
from stqsh.sources.live.read_ahead import follow_orders
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import home_blobs

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


def stream_of(broker: KafkaBroker, topic: str) -> StreamSpec:
    names = {"oid": "STRING", "lon": "DOUBLE", "lat": "DOUBLE", "ts": "TIMESTAMP", "_offset": "BIGINT"}
    return kafka_stream(names, broker.address, topic)


@contextmanager
def reading(folder: Path) -> Iterator[Callable[[ReadOrder], None]]:
    """Follow orders in a thread; yield a function that gives one."""
    here, there = os.pipe()
    with os.fdopen(here, "rb") as orders, os.fdopen(there, "wb") as given:
        thread = threading.Thread(target=follow_orders, args=(orders, folder, ""), daemon=True)
        thread.start()
        wait_for((folder / ready_file(0)).exists, 30)

        def order(one: ReadOrder) -> None:
            (folder / one.folder).mkdir(exist_ok=True)
            given.write(msgspec.json.encode(one) + b"\n")
            given.flush()

        yield order
        order(ReadOrder(1, "over"))
        given.close()
        thread.join(30)


def reached(folder: Path, begun: Position) -> Position:
    """Return how far the pieces of a folder go without a gap."""
    found = [piece for file in folder.iterdir() if (piece := piece_named(file.name)) is not None]
    position = dict(begun)
    for _, (part, start, stop) in sorted(found):
        assert position[part] == start, found
        position[part] = stop
    return position


def test_pieces_hold_what_workers_read(broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    send(broker.address, topic, [(None, row(f"o{n}", n / 100)) for n in range(400)], 0)
    send(broker.address, topic, [(b"o1", None), (b"x", b"oops"), (None, b""), (None, row("b", 2))], 1)
    begun = {f"{topic}/0": 7, f"{topic}/1": 0}
    with reading(tmp_path) as order:
        order(ReadOrder(1, "1-1", stream_of(broker, topic), begun))
        wait_for(lambda: reached(tmp_path / "1-1", begun) == {f"{topic}/0": 400, f"{topic}/1": 4}, 60)
        send(broker.address, topic, [(None, row("late", 2))], 1)
        wait_for(lambda: reached(tmp_path / "1-1", begun)[f"{topic}/1"] == 5, 60)
    wanted = (MessageRange(f"{topic}/0", 7, 400), MessageRange(f"{topic}/1", 0, 5))
    ahead, direct = (
        read_live(
            stream_of(broker, topic),
            home_blobs(tmp_path),
            LiveSlice(1, wanted, 0, (), str(folder)),
            LiveAccess(),
        )
        for folder in (tmp_path / "1-1", tmp_path / "none")
    )
    assert ahead.records.equals(direct.records)
    assert ahead.taken == direct.taken
    assert (direct.taken.records, direct.taken.dead) == (393 + 3, 2)


def test_transactions_are_read_once_they_are_committed(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(30)
    for name, ends in (("gone", producer.abort_transaction), ("kept", producer.commit_transaction)):
        producer.begin_transaction()
        for n in range(3):
            producer.produce(topic, row(f"{name}{n}", 1), partition=0)
        producer.flush(30)
        ends(30)
    begun = {f"{topic}/0": 0, f"{topic}/1": 0}
    with reading(tmp_path) as order:
        order(ReadOrder(1, "1-1", stream_of(broker, topic), begun))
        # Three messages and a marker, twice.
        wait_for(lambda: reached(tmp_path / "1-1", begun)[f"{topic}/0"] == 8, 60)
    piece = LiveSlice(1, (MessageRange(f"{topic}/0", 0, 8),), 0, (), str(tmp_path / "1-1"))
    read = read_live(stream_of(broker, topic), home_blobs(tmp_path), piece, LiveAccess())
    assert read.records["oid"].to_pylist() == ["kept0", "kept1", "kept2"]


def test_a_new_order_ends_the_one_before_it(broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    send(broker.address, topic, [(None, row("a", 1)), (None, row("b", 1))], 0)
    spec, part = stream_of(broker, topic), f"{topic}/0"
    with reading(tmp_path) as order:
        order(ReadOrder(1, "1-1", spec, {part: 0}))
        wait_for(lambda: reached(tmp_path / "1-1", {part: 0}) == {part: 2}, 60)
        order(ReadOrder(1, "1-2", spec, {part: 1}))
        wait_for(lambda: reached(tmp_path / "1-2", {part: 1}) == {part: 2}, 60)
        assert [each for each in threading.enumerate() if each.name.startswith("stream ")]
    wait_for(lambda: not [each for each in threading.enumerate() if each.name.startswith("stream ")], 60)


def test_a_position_that_is_gone_is_left_to_the_workers(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    with reading(tmp_path) as order:
        order(ReadOrder(1, "1-1", stream_of(broker, topic), {f"{topic}/0": 90}))
        wait_for(lambda: not [each for each in threading.enumerate() if each.name.startswith("stream ")], 60)
        assert [*(tmp_path / "1-1").iterdir()] == []


@pytest.mark.spark
def test_a_session_goes_on_without_a_process_and_with_another(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    with stqsh.connect(home=tmp_path, temporary=True) as session:
        execute(session, create(broker.address, topic))
        folded, sent = Folded(session), set[str]()

        def say(count: int) -> None:
            new = [f"{len(sent) + n}" for n in range(count)]
            sent.update(new)
            send(broker.address, topic, [(None, row(key, 1)) for key in new])
            folded.reaches(sent)

        def is_read_ahead() -> bool:
            say(10)
            walked = os.walk(session.home.arena.folder / "ahead")
            return any(piece_named(name) is not None for _, _, names in walked for name in names)

        wait_for(is_read_ahead)
        process = readers_of(session.home)[0]
        process.kill()
        process.wait(30)
        say(500)
        wait_for(lambda: bool(readers_of(session.home)) and is_read_ahead())
        assert len(folded.updates) == len(sent), "each once"
        processes = readers_of(session.home)
    for process in processes:
        process.wait(30)  # it ends with the session
