"""The named regions of a session as the binder reads them, from control.db."""

from __future__ import annotations

from stqsh.spec.region import PolygonSpec
from stqsh.spec.stream import AreaSpec
from stqsh.storage.catalogue import area_geometry, find_area
from stqsh.storage.control_log import ControlDb


class SessionRegions:
    """The live regions and sets of regions of a session, always current."""

    def __init__(self, db: ControlDb) -> None:
        self._db = db

    def area(self, name: str) -> AreaSpec | None:
        """Return the AreaSpec of a live region or set of regions."""
        found = find_area(self._db, name)
        return found.spec if found else None

    def polygons(self, area: AreaSpec, member: str | None) -> tuple[PolygonSpec, ...]:
        """Return the polygons of a region, or of a member of a set of regions."""
        # Imported here because few queries need polygons and the import is slow.
        from stqsh.sources.region_files import polygons_of
        from stqsh.spec.chunk import unpack

        return polygons_of(unpack(area_geometry(self._db, area.id)), member)
