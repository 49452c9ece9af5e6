"""SET and CREATE: what slots are told about their memory at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.specs import stream_spec

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.client.results import Message
from stqsh.profile import load_profile
from stqsh.spec.shedding import SheddingOrder
from stqsh.storage import catalogue_writer
from stqsh.storage.control_log import read_log
from stqsh.storage.shedding_orders import MemorySettings, append_order, memory_settings, standing_order
from tests.support.session_fixtures import STREAM

SIGNIFICANT = stream_spec(STREAM, retain="significant")


@pytest.fixture
def say(connection: Connection) -> Callable[[str], list[str]]:
    session = Session(connection.home, load_profile(None, {}), autoplay=False, connection=connection)

    def said(text: str) -> list[str]:
        return [outcome.text for outcome in session.outcomes(text) if isinstance(outcome, Message)]

    return said


def orders(connection: Connection) -> list[SheddingOrder]:
    return [row.entry for row in read_log(connection.db) if row.kind == "memory"]


def test_a_cache_factor_goes_to_the_slots_at_once_and_once(connection: Connection, say: Any) -> None:
    catalogue_writer.create_stream(connection.db, "", SIGNIFICANT)
    say("SET cache.factor = 0.25; SET cache.factor = 0.25; SET shell.scheme = light;")
    assert orders(connection) == [SheddingOrder(factor=0.25)]
    assert [row.kind for row in read_log(connection.db)] == ["create_stream", "set", "memory", "set", "set"]


def test_shedding_that_is_switched_off_ends_at_once(connection: Connection, say: Any) -> None:
    catalogue_writer.create_stream(connection.db, "", SIGNIFICANT)
    say("SET shedding.budget = 100; SET shedding = object;")
    append_order(connection.db, SheddingOrder(k=4))
    say("SET shedding.keep = 0.5")
    assert standing_order(connection.db) == SheddingOrder(k=4)
    say("SET shedding = off")
    assert standing_order(connection.db) == SheddingOrder()


def test_another_mode_ends_what_the_first_one_shed(connection: Connection, say: Any) -> None:
    catalogue_writer.create_stream(connection.db, "", SIGNIFICANT)
    say("SET shedding.budget = 100; SET shedding = query;")
    append_order(connection.db, SheddingOrder(cache=0.0, area=0.5))
    say("SET shedding = object")
    assert standing_order(connection.db) == SheddingOrder()


def test_nothing_is_said_where_no_stream_is_significant(
    connection: Connection, stream: Any, say: Any
) -> None:
    say("SET cache.factor = 0.25")
    assert orders(connection) == []


def test_the_first_significant_stream_is_told_what_was_set_before(
    connection: Connection, say: Any, tmp_path: Any
) -> None:
    (tmp_path / "a.csv").write_text("oid,lon,lat,ts\n")
    create = (
        "CREATE MOVING STREAM {} (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)"
        f" FROM FILE '{tmp_path}/a.csv' REPORT EVERY 5 s MAX SPEED 60 km/h RETAIN SIGNIFICANT;"
    )
    say("SET cache.factor = 0.5; SET shedding = object; SET shedding.budget = '1 MB';")
    say(create.format("a"))
    assert [row.kind for row in read_log(connection.db)][-2:] == ["create_stream", "memory"]
    assert orders(connection) == [SheddingOrder(factor=0.5)]
    append_order(connection.db, SheddingOrder(0.5, 7))
    say(create.format("b"))
    assert standing_order(connection.db) == SheddingOrder(0.5, 7)
    say("DROP STREAM a; DROP STREAM b;" + create.format("c"))
    assert standing_order(connection.db) == SheddingOrder(0.5)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("SET shedding = object", "shedding is object; nothing is shed before there is a budget"),
        (
            "SET shedding.budget = '64 MB'",
            "shedding.budget is 64 MB; nothing is shed yet: SET shedding = object;",
        ),
        (
            "SET cache.factor = 0.5",
            "cache.factor is 0.5; it takes hold with the first stream that is to RETAIN",
        ),
        ("SET engine.slots = 3", "engine.slots is 3, once the engine starts again"),
        ("SET routing.text_leaves = on", "routing.text_leaves is true"),
        ("SET shell.scheme = dark", "shell.scheme is dark"),
    ],
)
def test_a_setting_that_does_nothing_yet_says_so(text: str, remark: str, say: Any) -> None:
    assert say(text)[0].startswith(remark)


def test_a_budget_is_in_objects_or_in_bytes() -> None:
    objects = load_profile(None, {"STQSH_SHEDDING": "query", "STQSH_SHEDDING_BUDGET": "2000"})
    assert memory_settings(objects) == MemorySettings("query", 2000)
    size = load_profile(None, {"STQSH_SHEDDING_BUDGET": "2 MB", "STQSH_SHEDDING_KEEP": "0.5"})
    assert memory_settings(size) == MemorySettings("off", 2 << 20, in_bytes=True, keep=0.5)
    assert memory_settings(size).target == 1 << 20
    assert not memory_settings(size).sheds
