"""DESCRIBE of regions: corners, extent, area and text of the shape; of each member of a set."""

from __future__ import annotations

from pathlib import Path

from support.local import local_session

from stqsh.client.results import Rows

ZONES = (
    '{"type":"FeatureCollection","features":['
    '{"type":"Feature","properties":{"zone":"ring"},"geometry":{"type":"Polygon","coordinates":'
    "[[[0,0],[4,0],[4,4],[0,4],[0,0]],[[1,1],[2,1],[2,2],[1,2],[1,1]]]}},"
    '{"type":"Feature","properties":{"zone":"pair"},"geometry":{"type":"MultiPolygon","coordinates":'
    "[[[[0,0],[1,0],[0,1],[0,0]]],[[[5,5],[6,5],[5,6],[5,5]]]]}}]}"
)


def test_regions_are_described_with_their_shapes(tmp_path: Path) -> None:
    (tmp_path / "zones.geojson").write_text(ZONES)
    with local_session(tmp_path, slots=1) as session:
        list(
            session.execute(
                f"CREATE REGIONS zones FROM FILE '{tmp_path}/zones.geojson' NAME zone;"
                "CREATE REGION disc AS CIRCLE(10, 50, 400); CREATE REGION box AS RECT(10, 0, 11, 1);"
            )
        )
        about, members = (one for one in session.execute("DESCRIBE zones;") if isinstance(one, Rows))
        assert dict(about.rows)["members"] == 2
        assert members.columns == ("member", "shape", "extent", "area")
        by_name = {row[0]: row[1:] for row in members.rows}
        assert by_name["ring"][:2] == ("polygon of 8 corners, 1 hole", "(0, 0, 4, 4)")
        assert by_name["pair"][:2] == ("2 polygons of 6 corners", "(0, 0, 6, 6)")
        [disc] = (one for one in session.execute("DESCRIBE disc;") if isinstance(one, Rows))
        assert dict(disc.rows)["shape"] == "circle of 400 m around (10, 50)"
        [box] = (one for one in session.execute("DESCRIBE box;") if isinstance(one, Rows))
        # A degree by a degree at the equator: R² · 1° · sin 1°.
        assert dict(box.rows)["area"] == "1.236e+04 km²"
        assert dict(box.rows)["text"] == "POLYGON ((11 0, 11 1, 10 1, 10 0, 11 0))"
