"""The shapes of the members of a set of regions, as GeoJSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stqsh.storage.catalogue import area_geometry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stqsh.storage.control_log import ControlDb


def member_shapes(db: ControlDb, area: int) -> Mapping[str, bytes]:
    """Return the geometries of a set's members as GeoJSON texts, by name; the set may have been dropped."""
    import shapely  # this and pyarrow take a while to load

    from stqsh.spec.chunk import unpack

    geometry = unpack(area_geometry(db, area))
    names = geometry.column("member").to_pylist()
    shapes = shapely.from_wkb(geometry.column("wkb").to_numpy(zero_copy_only=False))
    texts = shapely.to_geojson(shapes).tolist()
    return {name: text.encode() for name, text in zip(names, texts, strict=True) if name is not None}
