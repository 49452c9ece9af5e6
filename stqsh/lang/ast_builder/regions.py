"""Builders of regions: rectangles, circles, polygons, names, and regions around a focal object."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.lang.ast.expressions import (
    Circle,
    Coordinate,
    Literal,
    MovingCircle,
    MovingRectangle,
    NamedRegion,
    Nearest,
    Parameter,
    Polygon,
    Quantity,
    Rectangle,
    Region,
)
from stqsh.lang.ast.source import Span, cover
from stqsh.lang.ast_builder.rules import Parts, rule, rules
from stqsh.lang.errors import StatementSyntaxError


class Coordinates(NamedTuple):
    """A point, and its position in the statement."""

    x: Coordinate
    y: Coordinate
    span: Span


_RECT_FORMS = "RECT(x1, y1, x2, y2), or RECT(xdist, ydist) AROUND id for one that moves"
_CIRCLE_FORMS = "CIRCLE(x, y, r), or CIRCLE(r) AROUND id for one that moves"
_SMALLEST_RING = 3


rules({"measures": list, "around": lambda parts: key(parts[0])})


@rule("rectangle", "bare_rectangle")
def rectangle(parts: Parts) -> Region:
    """Build `RECT(x1, y1, x2, y2)`, `(x1, y1, x2, y2)` or `RECT(xdist, ydist) AROUND id`."""
    given, focal = parts[0], parts[1] if len(parts) > 1 else None
    span = cover(given[0].span, given[-1].span)
    if focal is not None and len(given) == 2:
        return MovingRectangle(focal, given[0], given[1], span=span)
    if focal is not None or len(given) != 4:
        raise StatementSyntaxError(
            f"{_count(given)}{_around(focal)} do not make a rectangle", span, expected=(_RECT_FORMS,)
        )
    x1, y1, x2, y2 = (coordinate(value) for value in given)
    return Rectangle(x1, y1, x2, y2, span=span)


@rule("moving_rectangle")
def moving_rectangle(parts: Parts) -> MovingRectangle:
    """Build `('M', id, xdist, ydist)`."""
    letter, focal, xdist, ydist = parts
    check_letter(letter)
    return MovingRectangle(key(focal), xdist, ydist, span=cover(letter.span, ydist.span))


@rule("circle")
def circle(parts: Parts) -> Region:
    """Build `CIRCLE(x, y, r)` or `CIRCLE(r) AROUND id`."""
    given, focal = parts
    span = cover(given[0].span, given[-1].span)
    if focal is not None and len(given) == 1:
        return MovingCircle(focal, given[0], span=span)
    if focal is not None or len(given) != 3:
        raise StatementSyntaxError(
            f"{_count(given)}{_around(focal)} do not make a circle", span, expected=(_CIRCLE_FORMS,)
        )
    return Circle(coordinate(given[0]), coordinate(given[1]), given[2], span=span)


@rule("vertex")
def vertex(parts: Parts) -> Coordinates:
    """Build `x y`."""
    return Coordinates(fixed(parts[0]), fixed(parts[1]), cover(parts[0].span, parts[1].span))


@rule("ring")
def ring(parts: Parts) -> list[Coordinates]:
    """Build `(x y, x y, x y)`, closing the ring if the user did not."""
    corners: list[Coordinates] = parts
    if corners[0][:2] != corners[-1][:2]:
        corners = [*corners, corners[0]]
    if len(corners) <= _SMALLEST_RING:
        span = cover(parts[0].span, parts[-1].span)
        raise StatementSyntaxError("a polygon's ring has at least three corners", span)
    return corners


@rule("polygon")
def polygon(parts: Parts) -> Polygon:
    """Build `POLYGON((outer), (hole), …)`."""
    rings = tuple(tuple((corner.x, corner.y) for corner in ring) for ring in parts)
    ends = [corner.span for ring in parts for corner in ring]
    return Polygon(rings, span=Span(ends[0].start, max(span.end for span in ends)))


@rule("named_region")
def named_region(parts: Parts) -> NamedRegion:
    """Build `name` or `name['member']`."""
    name, member = parts
    return NamedRegion(name.text, None if member is None else key(member), span=name.span)


@rule("point")
def point(parts: Parts) -> Coordinates:
    """Build `(x, y)`."""
    return Coordinates(coordinate(parts[0]), coordinate(parts[1]), cover(parts[0].span, parts[1].span))


def nearest(k: Literal | Parameter, place: Coordinates | Literal | Parameter) -> Nearest:
    """Return the Nearest node for a point or a focal object."""
    if isinstance(place, Literal | Parameter):
        return Nearest(k, focal=key(place), span=place.span)
    return Nearest(k, point=(place.x, place.y), span=place.span)


def coordinate(value: Literal | Quantity | Parameter) -> Coordinate:
    """Return a coordinate: a number without a unit, or a parameter that stands for one."""
    return value if isinstance(value, Parameter) else fixed(value)


def fixed(value: Literal | Quantity) -> float:
    """Return a number without a unit as a coordinate."""
    if isinstance(value, Literal) and isinstance(value.value, int | float):
        return float(value.value)
    raise StatementSyntaxError("a coordinate is a number without a unit", value.span)


def key(value: Literal | Parameter) -> Literal | Parameter:
    """Return the key of an object: a string or a whole number."""
    if isinstance(value, Literal) and value.kind == "DECIMAL":
        raise StatementSyntaxError(f"a key is a string or a whole number, not {value.value}", value.span)
    return value


def check_letter(letter: Literal, what: str = "region", form: str = "('M', id, xdist, ydist)") -> None:
    """Check the 'M' at the start of a moving notation; `what` and `form` are used in the error message."""
    if letter.value not in ("M", "m"):
        raise StatementSyntaxError(
            f"'{letter.value}' does not begin a {what}", letter.span, expected=(f"'M', as in {form}",)
        )


def _count(given: list[Literal | Quantity | Parameter]) -> str:
    return "1 number" if len(given) == 1 else f"{len(given)} numbers"


def _around(focal: Literal | Parameter | None) -> str:
    return "" if focal is None else " and AROUND"
