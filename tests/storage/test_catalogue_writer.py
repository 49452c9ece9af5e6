import subprocess
import threading

import pytest
from msgspec.structs import replace
from support.specs import area_spec, table_spec

from stqsh.client.statements.source_paths import find_files, with_absolute_files
from stqsh.errors import HomeError, SourceError, StqshError
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import CreateStream, FileSource, GeneratorSource
from stqsh.spec.query import JoinSpec
from stqsh.storage import catalogue_writer, orphans, processes
from stqsh.storage.catalogue import (
    area_geometry,
    find_area,
    find_query,
    find_stream,
    find_table,
    live_queries,
)
from stqsh.storage.control_log import ControlDb, last_seq, set_meta
from stqsh.storage.home import open_home


def test_a_name_is_used_once_but_again_after_a_drop(connection, query):
    for name in ("q", "taxis"):
        with pytest.raises(StqshError, match=f"the name {name} is in use"):
            catalogue_writer.register(
                connection.db, catalogue_writer.Registered("", replace(query.spec, name=name))
            )
    catalogue_writer.change_query(connection.db, "drop", "", query)
    again = catalogue_writer.register(connection.db, catalogue_writer.Registered("", query.spec))
    assert again.id != query.id and find_query(connection.db, "q").id == again.id


def test_a_query_that_is_gone_cannot_be_changed(connection, query):
    catalogue_writer.change_query(connection.db, "drop", "", query)
    with pytest.raises(StqshError, match="no longer registered"):
        catalogue_writer.change_query(connection.db, "pause_query", "", query)


def test_a_stream_with_queries_cannot_be_dropped(connection, stream, query):
    with pytest.raises(StqshError, match="stream taxis has 1 query: q"):
        catalogue_writer.drop_stream(connection.db, "", stream)
    catalogue_writer.change_query(connection.db, "drop", "", query)
    catalogue_writer.drop_stream(connection.db, "", stream)
    assert find_stream(connection.db, "taxis") is None


def test_two_clients_that_register_one_name_at_once_register_one_query(connection, query):
    spec, errors = replace(query.spec, name="both"), []

    def register():
        try:
            catalogue_writer.register(connection.db, catalogue_writer.Registered("", spec))
        except StqshError as error:
            errors.append(error)

    threads = [threading.Thread(target=register) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 3 and [q.name for q in live_queries(connection.db)] == ["q", "both"]


def test_subscriptions_of_killed_clients_are_dropped(connection, query):
    child = subprocess.Popen(["true"])
    owner = processes.identity(child.pid)
    child.wait()
    for name, who in (("sub_1", owner), ("sub_2", processes.identity())):
        catalogue_writer.register(
            connection.db, catalogue_writer.Registered("", replace(query.spec, name=name), who)
        )
    orphans.drop_orphans(connection.db)
    assert [q.name for q in live_queries(connection.db)] == ["q", "sub_2"]


def test_two_clients_clean_up_after_the_same_dead_client(connection, query, monkeypatch):
    dead = catalogue_writer.Registered("", replace(query.spec, name="sub_1"), "999999999:1")
    catalogue_writer.register(connection.db, dead)
    seen = orphans.owned_queries(connection.db)
    orphans.drop_orphans(connection.db)
    last = last_seq(connection.db)
    monkeypatch.setattr(orphans, "owned_queries", lambda _: seen)  # both have looked before one of them drops
    orphans.drop_orphans(connection.db)
    assert last_seq(connection.db) == last and [q.name for q in live_queries(connection.db)] == ["q"]


def test_a_home_that_is_being_removed_is_nobody_s_to_remove(tmp_path, monkeypatch):
    home = open_home(root=tmp_path, temporary=True)
    ControlDb(home.path, create=True).close()

    def gone(_):
        raise HomeError("cannot use control.db: disk I/O error")

    monkeypatch.setattr(orphans, "is_orphaned", gone)
    orphans.remove_orphans(tmp_path)
    assert home.path.exists()


def test_temporary_homes_of_killed_clients_are_removed(tmp_path):
    kept, left = (open_home(root=tmp_path, temporary=True) for _ in range(2))
    for home, owner in ((kept, processes.identity()), (left, "999999999:1")):
        db = ControlDb(home.path, create=True)
        set_meta(db, "owner", owner)
        assert orphans.is_orphaned(db) is (home is left)
        db.close()
    orphans.remove_orphans(tmp_path)
    assert kept.path.exists() and not left.path.exists()


def test_files_are_looked_for_beside_the_script_then_in_the_working_directory(tmp_path, monkeypatch):
    beside, here = tmp_path / "beside", tmp_path / "here"
    for folder in (beside, here):
        (folder / "data").mkdir(parents=True)
    (here / "data" / "a.csv").touch()
    monkeypatch.chdir(here)
    assert find_files("data/*.csv", beside) == str(here / "data" / "*.csv")
    (beside / "data" / "b.csv").touch()
    assert find_files("data/*.csv", beside) == str(beside / "data" / "*.csv")
    assert find_files(str(beside / "**" / "b.csv")) == str(beside / "**" / "b.csv")


def test_a_glob_that_matches_nothing_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=r"no file matches 'no/\*\.csv'") as caught:
        find_files("no/*.csv")
    assert str(tmp_path) in caught.value.hint


def test_only_files_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").touch()
    made = with_absolute_files(CreateStream("moving", Name("s"), FileSource("a.csv")))
    assert made.source.glob == str(tmp_path / "a.csv")
    generated = CreateStream("moving", Name("s"), GeneratorSource("network"))
    assert with_absolute_files(generated) is generated


AREA = {"name": "zones", "set": True, "members": ["a", "b"], "source": None}
TABLE = {"name": "owners", "columns": [["oid", "STRING"]], "key": "oid"}


def test_all_names_share_one_namespace(connection, query):
    catalogue_writer.create_table(connection.db, "", table_spec(TABLE))
    catalogue_writer.create_area(connection.db, "", area_spec(AREA), b"geometry")
    for name, user in (
        ("taxis", "a stream"),
        ("q", "a query"),
        ("owners", "a table"),
        ("zones", "a set of regions"),
    ):
        message = f"the name {name} is in use by {user}"
        with pytest.raises(StqshError, match=message):
            catalogue_writer.create_table(connection.db, "", table_spec(TABLE, name=name))
        with pytest.raises(StqshError, match=message):
            catalogue_writer.create_area(connection.db, "", area_spec(AREA, name=name), b"")
        with pytest.raises(StqshError, match=message):
            catalogue_writer.register(
                connection.db, catalogue_writer.Registered("", replace(query.spec, name=name))
            )


def test_tables_and_regions_that_queries_use_cannot_be_dropped(connection, query):
    table = catalogue_writer.create_table(connection.db, "", table_spec(TABLE))
    area = catalogue_writer.create_area(connection.db, "", area_spec(AREA), b"geometry")
    join = JoinSpec("owners", table.id, "oid", "oid")
    spec = replace(query.spec, name="j", join=join, areas=(area.id,))
    joined = catalogue_writer.register(connection.db, catalogue_writer.Registered("", spec))
    with pytest.raises(StqshError, match="table owners has 1 query: j"):
        catalogue_writer.drop_table(connection.db, "", table)
    with pytest.raises(StqshError, match="regions zones has 1 query: j"):
        catalogue_writer.drop_area(connection.db, "", area)
    catalogue_writer.change_query(connection.db, "drop", "", joined)
    catalogue_writer.drop_table(connection.db, "", table)
    catalogue_writer.drop_area(connection.db, "", area)
    assert (find_table(connection.db, "owners"), find_area(connection.db, "zones")) == (None, None)
    assert area_geometry(connection.db, area.id) == b"geometry"
    assert catalogue_writer.create_table(connection.db, "", table_spec(TABLE)).id > table.id
    with pytest.raises(StqshError, match="a region that query j asks about no longer exists"):
        catalogue_writer.register(connection.db, catalogue_writer.Registered("", spec))
