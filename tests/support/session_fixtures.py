from dataclasses import replace

import pytest

from stqsh.client.connection import Connection
from stqsh.storage import catalogue_writer
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import open_home
from stqsh.storage.progress import BatchEffects, record_batch
from stqsh.storage.rows import NO_STATS, Progress
from stqsh.storage.update_log.writer import write_batch
from tests.support.specs import stream_spec
from tests.support.typed import query_spec
from tests.support.update_logs import BASE_TICK, TICK_US, batch_table, part

STREAM = {
    "name": "taxis",
    "kind": "moving",
    "columns": [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"]],
    "key": "oid",
    "x": "lon",
    "y": "lat",
    "time": "ts",
    "planar": False,
    "tick_us": TICK_US,
    "report_every_us": 30_000_000,
    "max_speed": 16.5,
    "order": "time",
    "source": {"type": "file", "glob": "/data/*.csv", "format": "csv", "options": {}},
}


class Deliver:
    """Plays the engine: writes batches as Deliver would."""

    def __init__(self, connection):
        self.connection, self.batch, self.step = connection, -1, 0

    def __call__(self, *updates, steps=1, run_done=0, effects=None, over=False, seq=10**6, stats=NO_STATS):
        self.batch, first = self.batch + 1, self.step + 1
        self.step += steps
        parts = [part(list(updates))] if updates else []
        logged = write_batch(self.connection.home.updates, self.batch, batch_table(first, self.step, *parts))
        progress = Progress(self.batch, self.step, BASE_TICK, TICK_US, seq, run_done, over, 0, stats)
        record_batch(self.connection.db, progress, replace(effects or BatchEffects(), logged=logged))


@pytest.fixture
def connection(tmp_path):
    home = open_home("s", root=tmp_path)
    db = ControlDb(home.path, create=True)
    yield Connection(home, db, lambda home: EngineInfo(0, 0, 0, "ready"))
    db.close()


@pytest.fixture
def deliver(connection):
    return Deliver(connection)


@pytest.fixture
def stream(connection):
    return catalogue_writer.create_stream(connection.db, "CREATE MOVING STREAM taxis …;", stream_spec(STREAM))


@pytest.fixture
def query(connection, stream):
    spec = {
        "name": "q",
        "stream": "taxis",
        "stream_id": stream.id,
        "kind": "range",
        "select": [["oid", ["col", "oid"]]],
        "for_us": None,
        "text": "SELECT oid FROM taxis INSIDE (0, 0, 1, 1)",
    }
    return catalogue_writer.register(
        connection.db, catalogue_writer.Registered("REGISTER QUERY q AS …;", query_spec(spec))
    )
