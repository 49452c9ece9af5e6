"""Damaged replay stores: found at first use, and made again where the source is the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from storage.test_damaged_update_log import DAMAGES
from support.session_fixtures import STREAM
from support.specs import entry, stream_spec, table_spec

from stqsh.checksums import DamagedFileError
from stqsh.engine.ingest.store_repair import repair_stores
from stqsh.engine.ingest.stream_preparer import SessionFiles, StreamPreparer
from stqsh.engine.planning.planner import Planner
from stqsh.errors import StqshError
from stqsh.sources.replay_store.store import open_store
from stqsh.sources.table_files import CONTENT
from stqsh.spec.offset import Offset
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue_writer import create_stream, create_table
from stqsh.storage.control_log import ControlDb, append
from stqsh.storage.engine_info import read_engine
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import record_progress, stream_statuses
from stqsh.storage.rows import Progress


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "taxis.csv"
    lines = [f"k{n % 7},116.{n:03d},39.9,2024-01-01T00:00:{n:02d}Z" for n in range(60)]
    file.write_text("\n".join(["oid,lon,lat,ts", *lines]) + "\n")
    return file


@pytest.fixture
def control(tmp_path: Path, source: Path) -> ControlDb:
    home = tmp_path / "home"
    home.mkdir()
    control = ControlDb(home, create=True)
    spec: StreamSpec = stream_spec({**STREAM, "source": {**STREAM["source"], "glob": str(source)}})
    create_stream(control, "CREATE MOVING STREAM taxis …;", spec)
    StreamPreparer(SessionFiles.of(SessionHome(home), control)).prepare_new()
    return control


def home_of(control: ControlDb) -> SessionHome:
    return SessionHome(control.path.parent)


def store_of(control: ControlDb) -> Path:
    return home_of(control).stream(1)


def rows(control: ControlDb) -> pa.RecordBatch:
    return open_store(store_of(control)).read(0, 100)


def files(control: ControlDb) -> list[str]:
    return sorted(path.name for path in store_of(control).iterdir() if path.name != "dead_letters.jsonl")


def test_whatever_is_damaged_is_made_again_from_its_source(control: ControlDb) -> None:
    before, names = rows(control), files(control)
    assert before.num_rows == 60 and names == ["manifest.json", "seg-000000.arrow", "seg-000000.ticks.npy"]
    for name in names:
        for damage in DAMAGES.values():
            damage(store_of(control) / name)
            with pytest.raises(StqshError, match=name):
                open_store(store_of(control)).rows_until(1 << 40)
                rows(control)
            repair_stores(home_of(control), control)
            assert rows(control).equals(before) and files(control) == names


def test_a_source_that_has_changed_is_not_believed(control: ControlDb, source: Path) -> None:
    (store_of(control) / "manifest.json").unlink()
    content = source.read_text()
    source.write_text(content.replace("116.007", "116.008"))
    with pytest.raises(DamagedFileError, match=r"streams/1/manifest.json .* other records than before"):
        repair_stores(home_of(control), control)
    source.unlink()
    with pytest.raises(DamagedFileError, match=r"manifest.json is damaged or gone, and no file"):
        repair_stores(home_of(control), control)
    source.write_text(content)
    repair_stores(home_of(control), control)
    assert rows(control).num_rows == 60


def test_a_run_does_not_wait_for_a_store_that_has_been_there(control: ControlDb) -> None:
    append(control, entry("run", {"mode": "end"}))
    (store_of(control) / "manifest.json").unlink()
    with pytest.raises(DamagedFileError, match=r"streams/1/manifest\.json is gone"):
        Planner(control.path.parent, 1).latest(Offset(), 0)


def test_rows_of_a_table_that_no_slot_has_got_are_read_again(control: ControlDb, tmp_path: Path) -> None:
    (tmp_path / "stands.csv").write_text("id,name\n1,north\n2,south\n")
    source = {"type": "file", "glob": str(tmp_path / "stands.csv"), "format": "csv", "options": {}}
    columns = [["id", "BIGINT"], ["name", "STRING"]]
    spec = table_spec({"name": "stands", "columns": columns, "key": "id", "source": source})
    table = create_table(control, "CREATE TABLE …;", spec)
    preparer = StreamPreparer(SessionFiles.of(home_of(control), control))
    preparer.prepare_new()
    content = home_of(control).table(table.id) / CONTENT
    assert stream_statuses(control)[table.id].rows == 2
    content.unlink()
    preparer.prepare_new()
    assert content.exists()
    record_progress(control, Progress(0, 1, seq=table.id))
    content.unlink()
    preparer.prepare_new()
    assert not content.exists(), "the slots have them"


@pytest.mark.parametrize("content", [b"", b"\xa5\xa5", b"[]", b"{}"])
def test_a_damaged_heartbeat_counts_as_none(control: ControlDb, content: bytes) -> None:
    home_of(control).engine_json.write_bytes(content)
    assert read_engine(home_of(control)) is None
