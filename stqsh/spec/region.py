"""The region of a query, as stored in the control log and in the slots' commands.

Coordinates are longitude and latitude in degrees, lengths are metres; on a planar stream both are units of
the plane. As JSON a region is an object whose "type" is its struct's tag.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, TypeAlias

import msgspec

Key: TypeAlias = str | int
"""The key of an object: a value of the stream's key column."""
Ring: TypeAlias = tuple[tuple[float, float], ...]
"""The corners (x, y) of a closed line."""
Place: TypeAlias = tuple[float, float]


class FocalPlace(NamedTuple):
    """The place of a focal object: x and y, and its extent as WKT, "" if it is a point.

    The place of an object with an extent is the centre of its box.
    """

    x: float
    y: float
    extent: str = ""


class RegionBase(msgspec.Struct, frozen=True, tag_field="type"):
    """The base of all regions.

    Attributes:
        has_centre: whether DISTANCE can be measured from the region's centre.
        is_nearest: whether the region ends at the k-th nearest object.
    """

    has_centre: ClassVar[bool] = False
    is_nearest: ClassVar[bool] = False

    @property
    def focal_key(self) -> Key | None:
        """The key of the object around which the region moves, None for a stationary region."""
        return None

    @property
    def needs_cache(self) -> bool:
        """Whether the region moves or grows, and so can reach objects that have not reported since."""
        return self.focal_key is not None or self.is_nearest

    @property
    def shape(self) -> str:
        """The tag, such as "rect"."""
        return str(self.__struct_config__.tag)


class EverywhereSpec(RegionBase, frozen=True, tag="all"):
    """All places: the region of a query without one."""


class RectangleSpec(RegionBase, frozen=True, tag="rect"):
    """A rectangle with the lower corner (x1, y1) and the upper corner (x2, y2)."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The corners x1, y1, x2, y2."""
        return self.x1, self.y1, self.x2, self.y2


class CircleSpec(RegionBase, frozen=True, omit_defaults=True, tag="circle"):
    """The places within `radius` of (x, y); `area` is the id of its named region, if any."""

    has_centre: ClassVar[bool] = True
    x: float
    y: float
    radius: float
    area: int | None = None


class PolygonSpec(RegionBase, frozen=True, omit_defaults=True, tag="polygon"):
    """A polygon: its outer ring, then its holes; `area` is the id of its named region, if any."""

    rings: tuple[Ring, ...]
    area: int | None = None


class NamedRegionSpec(RegionBase, frozen=True, tag="area"):
    """A region made by CREATE REGION, or one member of a set of regions.

    Attributes:
        area: the id of the region or the set.
        name: its name.
        member: the name of the member, None for a single region.
    """

    area: int
    name: str
    member: str | None = None


class MovingRectangleSpec(RegionBase, frozen=True, tag="moving_rect"):
    """A rectangle of `xdist` by `ydist` whose centre is the object with the key `focal`.

    Attributes:
        at: the place of that object, None while it is absent; set only in the condition of a snapshot that is
            being answered.
    """

    focal: Key
    xdist: float
    ydist: float
    at: Place | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def focal_key(self) -> Key | None:
        """The key of the object around which the region moves."""
        return self.focal


class MovingCircleSpec(RegionBase, frozen=True, omit_defaults=True, tag="moving_circle"):
    """The places within `radius` of the object with the key `focal`; `at` is as for `MovingRectangleSpec`.

    Attributes:
        meets: whether the query is for extents that share a point with the circle. Then a condition tests it,
            and objects may be in any place.
    """

    has_centre: ClassVar[bool] = True
    focal: Key
    radius: float
    at: Place | msgspec.UnsetType | None = msgspec.UNSET
    meets: bool = False

    @property
    def focal_key(self) -> Key | None:
        """The key of the object around which the region moves."""
        return self.focal


class NearestSpec(RegionBase, frozen=True, omit_defaults=True, tag="nearest"):
    """The k objects nearest to a place (x, y), or to the object with the key `focal`.

    Attributes:
        extent: that object's extent as WKT; set only in a snapshot that is being answered.
    """

    has_centre: ClassVar[bool] = True
    is_nearest: ClassVar[bool] = True
    k: int
    x: float | None = None
    y: float | None = None
    focal: Key | None = None
    extent: str = ""

    @property
    def place(self) -> tuple[float, float] | None:
        """The place, None for neighbours of an object."""
        return None if self.x is None or self.y is None else (self.x, self.y)

    @property
    def focal_key(self) -> Key | None:
        """The key of the object whose neighbours are requested, None for the neighbours of a place."""
        return self.focal


Region: TypeAlias = (
    EverywhereSpec
    | RectangleSpec
    | CircleSpec
    | PolygonSpec
    | NamedRegionSpec
    | MovingRectangleSpec
    | MovingCircleSpec
    | NearestSpec
)

MovingSpec: TypeAlias = MovingRectangleSpec | MovingCircleSpec
MOVING = (MovingRectangleSpec, MovingCircleSpec)
"""The regions that move with an object."""

EVERYWHERE = EverywhereSpec()
