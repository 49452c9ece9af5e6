"""GENERATOR 'network': deterministic, on the roads, as fast as allowed, and restartable anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from stqsh.errors import SourceError
from stqsh.sources.generator.network import COLUMNS, NetworkGenerator
from stqsh.sources.generator.roads import CLASS_SPEEDS, TownPlan, build_road
from stqsh.sources.generator.vehicles import KINDS
from stqsh.sources.replay_store.preparation import extend, prepare
from stqsh.sources.replay_store.store import open_store
from stqsh.spec.stream import ColumnSpec, GeneratorSourceSpec, StreamSpec

SECOND = 1_000_000
TOWN = TownPlan((10.0, 50.0, 10.1, 50.1), 200, 1, True)


def spec(columns: Any = COLUMNS, tick_us: int = SECOND, **options: Any) -> StreamSpec:
    source = GeneratorSourceSpec("network", {"nodes": 200, "objects": 50} | options)
    columns = tuple(ColumnSpec(*column) for column in columns)
    return StreamSpec(
        name="s", columns=columns, key="oid", x="lon", y="lat", time="ts", tick_us=tick_us, source=source
    )


def silent(fraction: float | None, text: str) -> None:
    pass


def table(generator: NetworkGenerator, steps: int) -> pa.Table:
    return pa.Table.from_batches([generator.advance() for _ in range(steps)])


def metres(rows: pa.Table) -> np.ndarray:
    """How far each object came between two reports, per second."""
    radius = 6_371_008.8
    lon, lat = (np.radians(rows[name].to_numpy().reshape(-1, 50)) for name in ("lon", "lat"))
    return np.hypot(np.diff(lon, axis=0) * np.cos(lat[1:]), np.diff(lat, axis=0)) * radius


def test_every_crossing_can_be_reached_on_quickest_ways() -> None:
    road = build_road(TOWN)
    seconds = road.length / CLASS_SPEEDS[road.kind]
    for destination in range(0, road.nodes, 37):
        node, spent = np.arange(road.nodes), np.zeros(road.nodes)
        for _ in range(road.nodes):
            edge = road.next_edge[destination, node]
            moving = node != destination
            assert (road.source[edge[moving]] == node[moving]).all()
            spent[moving] += seconds[edge[moving]]
            node = np.where(moving, road.target[edge], node)
        assert (node == destination).all()
        # No single road offers a shorter way than the one that is taken.
        assert (spent[road.source] <= seconds + spent[road.target] + 1e-9).all()


def test_a_town_has_roads_of_all_classes_within_its_bounds() -> None:
    road = build_road(TOWN)
    assert set(road.kind) == {0, 1, 2}
    assert road.x.min() >= 10 and road.x.max() <= 10.1 and road.y.min() >= 50 and road.y.max() <= 50.1


def test_objects_report_in_turn_and_move_no_faster_than_their_class() -> None:
    rows = table(NetworkGenerator(spec(report_every=10 * SECOND)), 100)
    assert rows.num_rows == 50 * 10
    assert len(set(rows["oid"].to_pylist())) == 50
    gaps = {oid: [] for oid in set(rows["oid"].to_pylist())}
    for oid, ts in zip(rows["oid"].to_pylist(), rows["ts"].to_pylist(), strict=True):
        gaps[oid].append(ts.timestamp())
    assert all(set(np.diff(times)) == {10.0} for times in gaps.values())
    fastest = 1.2 * max(min(kind.top_speed, kind.factor * CLASS_SPEEDS[0]) for kind in KINDS)
    every_second = metres(table(NetworkGenerator(spec()), 60))
    assert 0 < every_second.max() <= fastest * 1.01


def test_a_higher_speed_leads_farther() -> None:
    slow, fast = (metres(table(NetworkGenerator(spec(speed=factor)), 30)).sum() for factor in (0.5, 2.0))
    assert fast > 2 * slow


def test_the_same_options_give_the_same_records_and_another_seed_does_not() -> None:
    assert table(NetworkGenerator(spec()), 20).equals(table(NetworkGenerator(spec()), 20))
    assert not table(NetworkGenerator(spec()), 20).equals(table(NetworkGenerator(spec(seed=43)), 20))


@pytest.mark.parametrize("options", [{}, {"new_per_tick": 3, "speed": 20.0, "report_every": 3 * SECOND}])
def test_it_can_stop_and_go_on_anywhere(options) -> None:
    whole = table(NetworkGenerator(spec(**options)), 60)
    generator, pieces = NetworkGenerator(spec(**options)), []
    for steps in (1, 7, 22, 30):
        generator = NetworkGenerator(spec(**options)).restored(generator.state())
        pieces.append(table(generator, steps))
    assert pa.concat_tables(pieces).equals(whole)


def test_new_objects_come_and_leave_at_the_end_of_their_trips() -> None:
    rows = table(NetworkGenerator(spec(objects=10, new_per_tick=2, speed=30.0)), 100)
    lon, lat = rows["lon"], rows["lat"]
    gone = rows.filter(lon.is_null())["oid"].to_pylist()
    assert lon.null_count == lat.null_count == len(gone) > 50
    assert len(set(gone)) == len(gone), "who has left says nothing more"
    assert len(set(rows["oid"].to_pylist())) == 10 + 2 * 99


def test_kinds_and_columns_as_asked() -> None:
    columns = [("oid", "STRING"), ("LAT", "DOUBLE"), ("lon", "FLOAT"), ("ts", "TIMESTAMP")]
    asked = replace(spec(columns, kinds="bus:1, bike:3"), y="LAT")
    rows = table(NetworkGenerator(asked), 2)
    assert rows.column_names == ["oid", "LAT", "lon", "ts", "_tick"]
    kinds = [oid.split("-")[0] for oid in rows["oid"].to_pylist()]
    assert set(kinds) == {"bus", "bike"} and kinds.count("bike") > kinds.count("bus")


def test_planar_towns() -> None:
    planar = replace(spec(), planar=True, bounds=(-100.0, 0.0, 100.0, 50.0))
    rows = table(NetworkGenerator(planar), 3)
    assert min(rows["lon"].to_pylist()) >= -100 and max(rows["lat"].to_pylist()) <= 50


WRONG = {
    "objects": (-1, "a whole number from 0"),
    "report_every": (30, "a duration with its unit, such as 30 s,"),
    "speed": (0, "a number above 0"),
    "start": ("noon", "a time such as"),
    "bounds": ("1,2,3", "four numbers such as"),
    "kinds": ("tram", "a list such as"),
}


@pytest.mark.parametrize("option", WRONG)
def test_values_that_make_no_sense(option) -> None:
    value, wanted = WRONG[option]
    with pytest.raises(SourceError, match=f"{option} is {wanted}"):
        NetworkGenerator(spec(**{option: value}))


def test_unknown_options_and_generators_name_near_ones(tmp_path) -> None:
    with pytest.raises(SourceError, match="GENERATOR 'network' has no option object") as caught:
        NetworkGenerator(spec(object=5))
    assert caught.value.hint == "did you mean objects?"
    unknown = replace(spec(), source=GeneratorSourceSpec("netwrok"))
    with pytest.raises(SourceError, match="no generator 'netwrok'") as caught:
        prepare(unknown, tmp_path, report=silent)
    assert caught.value.hint == "did you mean network?"


def test_a_store_without_end_grows_on_demand(tmp_path) -> None:
    manifest = prepare(spec(), tmp_path, report=silent)
    assert not manifest.complete and manifest.rows > 0
    store = open_store(tmp_path)
    wanted = store.first_tick + 1000
    assert extend(spec(), tmp_path, wanted).last_tick >= wanted
    store.refresh()
    assert store.rows_until(wanted) == 50 * 1001
    before = sorted(path.name for path in tmp_path.iterdir())
    extend(spec(), tmp_path, wanted)
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "what is there is not made again"
    rows = pa.Table.from_batches([store.read(0, 50 * 900)])
    assert rows.equals(table(NetworkGenerator(spec()), 900).combine_chunks())


def test_an_extension_that_was_cut_off_is_made_good(tmp_path, monkeypatch) -> None:
    for name in ("cut", "whole"):
        prepare(spec(), tmp_path / name, report=silent)
    wanted = open_store(tmp_path / "cut").last_tick + 1

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("stqsh.sources.generator.replay.write_manifest", die)
        extend(spec(), tmp_path / "cut", wanted)
    for name in ("cut", "whole"):
        extend(spec(), tmp_path / name, wanted)
    stores = [open_store(tmp_path / name) for name in ("cut", "whole")]
    assert stores[0].read(0, stores[0].rows).equals(stores[1].read(0, stores[1].rows))


def test_what_is_needed_no_more_is_deleted_and_the_rest_is_as_it_would_be(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("stqsh.sources.generator.replay._SEGMENT_ROWS", 1000)
    for name in ("whole", "part"):
        prepare(spec(), tmp_path / name, report=silent)
    tick, row = open_store(tmp_path / "whole").last_tick, 0
    for _ in range(3):
        tick += 400
        extend(spec(), tmp_path / "whole", tick)
        extend(spec(), tmp_path / "part", tick, needed_row=row)
        row = open_store(tmp_path / "part").rows - 1500
    whole, part = (open_store(tmp_path / name) for name in ("whole", "part"))
    gone = part.manifest.gone_rows
    assert gone > 20_000 and (part.rows, part.first_tick) == (whole.rows, whole.first_tick)
    assert part.read(gone, part.rows).equals(whole.read(gone, whole.rows))
    files = {path.name for path in (tmp_path / "part").glob("seg-*.arrow")}
    assert files == {segment.file for segment in part.manifest.segments}
    assert len(list((tmp_path / "part").glob("seg-*.npy"))) == len(files)


def test_a_store_with_an_end_is_made_at_once(tmp_path) -> None:
    manifest = prepare(spec(duration=60 * SECOND, tick_us=10 * SECOND), tmp_path, report=silent)
    assert manifest.complete and manifest.rows == 50 * 60
    assert manifest.last_tick - manifest.first_tick == 5
