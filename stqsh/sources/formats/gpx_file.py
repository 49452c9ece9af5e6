"""Read GPX files: points of tracks and routes, and waypoints; a point's number, from 1, serves as its line.

The columns are `lon`, `lat`, `ele`, `time`; `track`, the name of the point's track or route, or its number
from 1 if it has no name; `segment`, the segment's number within the track; `name`, the point's name; and one
column for each other element of the points, also within `extensions`, named after the element.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from stqsh.sources.formats.json_file import JsonObject, as_text
from stqsh.sources.formats.record_parser import TEXT_LIMIT, RowBlock, RowLocation
from stqsh.sources.formats.record_schema import RecordSchema, check_options, match_names
from stqsh.sources.formats.row_blocks import open_bytes
from stqsh.sources.formats.time_formats import TIME_OPTIONS
from stqsh.spec.stream import Options

#: The number of points that are read together.
_BLOCK_POINTS = 1 << 16
_POINTS = frozenset({"trkpt", "rtept", "wpt"})
_LINES = frozenset({"trk", "rte"})
FIRST_COLUMNS = ("track", "segment", "lon", "lat", "ele", "time")
"""The columns that each point has, with or without a value."""


def read_gpx_blocks(
    path: Path, layout: RecordSchema, options: Options, size: int | None = None
) -> Iterator[RowBlock]:
    """Read a GPX file in blocks of at most `size` points.

    Raises:
        SourceError: no point has a declared column.
        OSError: the file cannot be read, or is not GPX.
    """
    check_options(options, TIME_OPTIONS, "FORMAT GPX")
    names: list[str] | None = None
    first = 1
    for number, points in enumerate(gpx_points(path, min(size or _BLOCK_POINTS, _BLOCK_POINTS))):
        if names is None:
            present = list(dict.fromkeys([*FIRST_COLUMNS, *(name for point in points for name in point)]))
            match_names(filter(None, (layout.key, layout.x, layout.y, layout.time)), present, str(path))
            lower = {name.lower(): name for name in reversed(present)}
            names = [name if name in present else lower.get(name.lower(), name) for name in layout.names]
        columns = [as_text(point.get(name) for point in points) for name in names]
        ordinals = np.arange(len(points), dtype=np.int64)
        locate = partial(_locate, points, first)
        yield RowBlock(columns, ordinals, locate, number, size=sum(map(len, points)) * 8)
        first += len(points)


def gpx_points(path: Path, size: int) -> Iterator[list[JsonObject]]:
    """Yield the points of a GPX file, at most `size` at a time, as texts by column.

    Raises:
        OSError: the file cannot be read, or is not GPX.
    """
    waiting = list[JsonObject]()
    try:
        with open_bytes(path) as stream:
            for point in _points(stream):
                waiting.append(point)
                if len(waiting) == size:
                    yield waiting
                    waiting = []
    except ElementTree.ParseError as problem:
        if waiting:
            yield waiting
        raise OSError(f"no GPX: {problem}") from problem
    if waiting:
        yield waiting


def _points(stream: Any) -> Iterator[JsonObject]:
    lines, segment, name = 0, 0, ""
    around = list[ElementTree.Element]()
    for event, element in ElementTree.iterparse(stream, ("start", "end")):
        tag = _tag(element)
        if event == "start":
            if not around and tag != "gpx":
                raise ElementTree.ParseError(f"its root element is {tag}")
            around.append(element)
            if tag in _LINES:
                lines, segment, name = lines + 1, 0, str(lines + 1)
            elif tag == "trkseg":
                segment += 1
            continue
        around.pop()
        if tag == "name" and _tag(around[-1]) in _LINES and element.text:
            name = element.text.strip()
        elif tag in _POINTS:
            yield _point(element, tag, name, segment)
            around[-1].clear()  # frees the memory of what has been read


def _tag(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _point(element: ElementTree.Element, tag: str, name: str, segment: int) -> JsonObject:
    found: dict[str, object] = {} if tag == "wpt" else {"track": name}
    if tag == "trkpt":
        found["segment"] = str(segment)
    found |= element.attrib
    for part in element.iter():
        if part is not element and part.text and part.text.strip():
            found.setdefault(_tag(part), part.text.strip())
    return found


def _locate(points: list[JsonObject], first: int, ordinals: NDArray[np.int64]) -> list[RowLocation]:
    return [RowLocation(first + at, str(dict(points[at]))[:TEXT_LIMIT]) for at in ordinals.tolist()]
