"""Lines of standard input and sockets: those that say nothing, and what a connection leaves when it ends."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from stqsh.engine.ingest import intakes
from stqsh.engine.ingest.intakes import receive_lines
from stqsh.sources.live.decoding import Decoded, MessageDecoder, Messages
from stqsh.sources.live.line_spool import PART, SpoolReader, SpoolSource
from stqsh.sources.live.protocol import MessageRange
from stqsh.spec.stream import ColumnSpec, SocketSourceSpec, StreamSpec

_COLUMNS = (("oid", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))
_BOM = b"\xef\xbb\xbf"


def decode(form: str, *lines: bytes, first_line: bytes = b"") -> Decoded:
    columns = tuple(ColumnSpec(name, kind) for name, kind in _COLUMNS)
    source = SocketSourceSpec("localhost:1", form)
    spec = StreamSpec(name="s", columns=columns, key="oid", x="lon", y="lat", time="ts", source=source)
    messages = Messages("here", np.arange(len(lines)) + 1, list(lines), first_line=first_line)
    return MessageDecoder.of(spec).decode(messages)


def found(form: str, *lines: bytes) -> tuple[list[str], list[int]]:
    """Return the keys of the records, and the lines of the dead letters."""
    decoded = decode(form, *lines)
    return decoded.records.column("oid").to_pylist(), [letter.line for letter in decoded.dead]


def csv(oid: str) -> bytes:
    return f"{oid},1,2,1700000000".encode()


@pytest.mark.parametrize("header", [b"oid,lon,lat,ts", b'"oid","lon","lat","ts"\r', _BOM + b"oid,lon,lat,ts"])
def test_a_header_of_csv_is_no_record_wherever_it_stands(header: bytes) -> None:
    assert found("csv", header, csv("a"), header, csv("b"), b"x") == (["a", "b"], [5])
    assert found("csv", header) == ([], [])


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (b"ts,lat,lon,oid", b"1700000000,2,1,a"),
        (_BOM + b"route, LON ,lat,ts,note,oid\r", b'7,1,2,1700000000,"x,y",a\r'),
        (b'"oid","lat","lon","ts"', b"a,2,1,1700000000"),
    ],
)
def test_a_header_says_where_the_columns_are(header: bytes, row: bytes) -> None:
    whole = decode("csv", header, row, header, b"x", first_line=header)
    later = decode("csv", row, first_line=header)
    for decoded in (whole, later):
        [record] = decoded.records.select(["oid", "lon", "lat"]).to_pylist()
        assert record == {"oid": "a", "lon": 1.0, "lat": 2.0}
    assert [letter.line for letter in whole.dead] == [4]
    assert later.dead == []


def test_rows_whose_header_lacks_a_column_are_set_aside_with_that_reason() -> None:
    header = b"oid,lat,long,ts"
    decoded = decode("csv", header, csv("a"), csv("b"), first_line=header)
    assert decoded.records.num_rows == 0
    assert [(letter.line, letter.reason) for letter in decoded.dead] == [
        (2, "no column lon in the header"),
        (3, "no column lon in the header"),
    ]


def test_a_first_line_of_data_is_no_header() -> None:
    assert decode("csv", csv("lon"), csv("b"), first_line=csv("lon")).records.num_rows == 2


@pytest.mark.parametrize("line", [b"x" * 200_000, b"\x00,\xff", b'"oid', b"a\rb"])
def test_a_first_line_of_any_bytes_stops_nothing(line: bytes) -> None:
    assert decode("csv", line, csv("a"), first_line=line).records.column("oid").to_pylist() == ["a"]


def test_the_mark_of_utf_8_belongs_to_no_key() -> None:
    assert found("csv", _BOM + csv("a"), csv("b")) == (["a", "b"], [])


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_blank_lines_say_nothing(form: str) -> None:
    line = csv("a") if form == "csv" else b'{"oid":"a","lon":1,"lat":2,"ts":1700000000}'
    assert found(form, b"", b"\r", line, b"  ", b"oops") == (["a"], [5])
    assert found(form, b"", b"\r") == ([], [])


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_host_that_can_have_no_address_is_told(tmp_path: Path) -> None:
    stop, source = threading.Event(), SpoolSource(tmp_path)
    thread = threading.Thread(target=receive_lines, args=("a..b:9000", tmp_path, stop))
    thread.start()
    try:
        until(lambda: source.state().message.startswith("waiting for a..b:9000: "))
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join(10)


def test_the_line_within_which_a_connection_ends_is_kept_or_a_dead_letter(
    server: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intakes, "_WAIT_S", 0.01)
    stop, source = threading.Event(), SpoolSource(tmp_path)
    host, port = server.getsockname()
    address = f"{host}:{port}"
    thread = threading.Thread(target=receive_lines, args=(address, tmp_path, stop))
    thread.start()
    try:
        with server.accept()[0] as first:
            first.sendall(csv("a") + b"\n" + csv("b"))
        until(lambda: source.state().ends[PART] == 2)
        with server.accept()[0] as second:
            second.sendall(csv("c") + b"\n" + csv("d"))
            until(lambda: source.state().ends[PART] == 3)
            assert source.state().message == ""
            time.sleep(0.1)  # the rest has come as well
            server.close()  # so that it does not connect again at once
            second.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: source.state().ends[PART] == 4)
        until(lambda: source.state().message.startswith(f"waiting for {address}: connection"))
    finally:
        stop.set()
        server.close()
        thread.join(10)
    lines = [
        value
        for part in SpoolReader(tmp_path, address).read(MessageRange(PART, 0, 4))
        for value in part.values
        if value is not None
    ]
    decoded = decode("csv", *lines)
    assert decoded.records.column("oid").to_pylist() == ["a", "b", "c"]
    [letter] = decoded.dead
    assert letter.line == 4
    assert "the connection broke here" in letter.reason
