"""Many damaged messages: each is a record or a dead letter, whatever the format and whoever reads it.

`STQSH_FUZZ=1000000 pytest -m slow tests/sources/live/test_fuzz_messages.py` tries as many as it says.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from support.damaging import damaged

from stqsh.sources.formats.text_values import TextValues
from stqsh.sources.live.decoding import MessageDecoder, Messages, Payloads
from stqsh.spec.stream import ColumnSpec, KafkaSourceSpec, StreamSpec

MESSAGES = 200
COLUMNS = (("oid", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))


def json_message(number: int) -> bytes:
    return f'{{"oid":"o{number}","lon":{number % 90}.25,"lat":2,"ts":{number}}}'.encode()


def csv_message(number: int) -> bytes:
    return f"o{number},{number % 90}.25,2,{number}".encode()


def arrow_message(number: int) -> bytes:
    table = pa.table({"oid": [f"o{number}"], "lon": [1.5], "lat": [2.0], "ts": [number]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


FORMATS: dict[str, Callable[[int], bytes]] = {
    "jsonl": json_message,
    "csv": csv_message,
    "arrow": arrow_message,
}


def worse(message: bytes, draw: random.Random) -> bytes:
    """Cut a message off, or damage it, or both."""
    if draw.random() < 0.6:
        message = message[: draw.randrange(len(message) + 1)]
    return damaged(message, draw) if draw.random() < 0.6 else message


def try_messages(count: int, form: str) -> None:
    draw = random.Random(15)
    columns = tuple(ColumnSpec(*column) for column in COLUMNS)
    source = KafkaSourceSpec("b", ("t",), form, {})
    decoder = MessageDecoder.of(
        StreamSpec(name="s", columns=columns, key="oid", x="lon", y="lat", time="ts", source=source)
    )
    for _ in range(count // MESSAGES):
        share = draw.choice((0.02, 0.3, 1.0))
        is_good = [draw.random() >= share for _ in range(MESSAGES)]
        texts = [
            FORMATS[form](number) if good else worse(FORMATS[form](number), draw)
            for number, good in enumerate(is_good)
        ]
        found = []
        values: list[Payloads] = [list(texts), TextValues.of(texts)]
        for payloads in values if form != "arrow" else values[:1]:
            decoded = decoder.decode(Messages("t/0", np.arange(MESSAGES), payloads))
            keys = decoded.records.column("oid").to_pylist()
            dead = {letter.line for letter in decoded.dead}
            assert not any(good for number, good in enumerate(is_good) if number in dead)
            assert {f"o{number}" for number, good in enumerate(is_good) if good} <= set(keys)
            if form != "arrow":  # a damaged stream of Arrow may hold fewer records
                assert len(keys) + len(decoded.dead) == MESSAGES
            found.append((decoded.records.to_pylist(), decoded.dead))
        assert found[0] == found[-1]


@pytest.mark.parametrize("form", FORMATS)
def test_some_damaged_messages(form: str) -> None:
    try_messages(8_000, form)


@pytest.mark.slow
@pytest.mark.timeout(0 if "STQSH_FUZZ" in os.environ else 300)
@pytest.mark.parametrize("form", FORMATS)
def test_many_damaged_messages(form: str) -> None:
    try_messages(int(os.environ.get("STQSH_FUZZ", "50000")), form)
