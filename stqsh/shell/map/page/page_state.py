"""The page of a map: one file that needs no network, built from a template and the JSON of a scene."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlsplit

import numpy as np
import orjson
import pyarrow as pa

from stqsh.client.map.history import Past, SceneHistory
from stqsh.client.map.land import land_json
from stqsh.client.read.spec_text import query_region_text
from stqsh.shell.map.terminal.palette import LETTERS
from stqsh.shell.status import alive_text
from stqsh.shell.writers.text_columns import json_fragments
from stqsh.storage.session_settings import session_settings
from stqsh.units import format_instant, number_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stqsh.client.map.region_outlines import RegionOutline
    from stqsh.client.map.region_shades import RegionShades
    from stqsh.client.map.scene import DrawnQuery, MapFeed, Scene

MOST_DRAWN = 100_000
"""The maximum number of objects in a page; of more, a page has a sample."""
MOST_RECORDS = 20_000
"""With more objects than this, a page has only their keys and places."""
EVERY_S = 1
"""How often a page in a file reloads itself."""
HEARTBEAT_S = 5.0
"""How often an unchanged page is rewritten, to show that its writer is alive."""
PATIENCE_S = 20
"""The time without a rewrite after which a page reports that."""
_DECIMALS = {True: 6, False: 7}
"""Decimals of coordinates in a page, by whether it is planar; in degrees they are about a centimetre."""
_FOLDER = Path(__file__).parent / "web"
_SCRIPTS = ("view.js", "past.js", "ground.js", "painting.js", "legend.js", "live.js")
"""The scripts of the page, in their order."""
PAGE_BEGIN = (_FOLDER / "page.html").read_bytes().partition(b"{{")[0]
"""The beginning of every page."""


class PageHeader(TypedDict):
    """The session's data in a page.

    `ended` is the reason why no more states follow; None while they do. `written` is in milliseconds since
    the epoch, `every` and `patience` are in seconds. `tiles` is the pattern of tile addresses, "off" for
    none.
    """

    session: str
    status: str
    ended: str | None
    written: int
    stamp: str
    every: int
    patience: int
    tiles: str
    credit: str


class PageExtents(TypedDict):
    """The lines of the objects' extents in the objects' order.

    `of` has the index of each line's object, and `solid` tells whether the line is a ring of a polygon.
    """

    of: NDArray[Any]
    solid: NDArray[Any]
    lines: Sequence[NDArray[Any]]


class PageRegion(TypedDict):
    """A region that a query shades, with its value as a number and as text."""

    name: str
    rings: Sequence[NDArray[Any]]
    value: int | float
    text: str
    share: float


class PageShades(TypedDict):
    """The regions that a query shades, and the ends of the scale as text."""

    column: str
    least: str
    most: str
    regions: Sequence[PageRegion]


class PageQuery(TypedDict):
    """A query on a page; `members` and `focal` are indexes into the page's objects."""

    name: str
    letter: str
    kind: str
    about: str
    text: str
    state: str
    size: int
    members: NDArray[Any]
    rings: Sequence[NDArray[Any]]
    centre: tuple[float, float] | None
    focal: int | None
    focalKey: Any
    aggregate: bool
    shades: PageShades | None


@dataclass
class PageStates:
    """The successive states of a map."""

    feed: MapFeed
    tiles: str = field(init=False)
    _credit: str = field(init=False)
    _history: SceneHistory = field(init=False)
    _scene: Scene | None = field(default=None, init=False)
    _given_at: float = field(default=float("-inf"), init=False)
    _numbers: itertools.count[int] = field(default_factory=itertools.count, init=False)

    def __post_init__(self) -> None:
        settings = session_settings(self.feed.connection.db)
        self.tiles, self._credit = settings.text("map.tiles"), settings.text("map.credit")
        self._history = SceneHistory(self.feed.connection, self.feed.stream)

    def next(self) -> bytes | None:
        """Return the current state; None if nothing has changed and no heartbeat is due.

        Raises what `MapFeed.look` raises.
        """
        scene = self.feed.look(MOST_DRAWN, records=True)
        if scene is not None:
            self._scene = scene
            self._history.take(scene)
        if self._scene is None or (scene is None and time.monotonic() - self._given_at < HEARTBEAT_S):
            return None
        self._given_at = time.monotonic()
        return self._json(None)

    def last(self, why: str) -> bytes | None:
        """Return the last state, with the reason why no other follows; None if there was none."""
        return None if self._scene is None else self._json(why)

    @property
    def step(self) -> int:
        """The step of the latest state."""
        return 0 if self._scene is None else self._scene.places.step

    def _json(self, ended: str | None) -> bytes:
        assert self._scene is not None, "a state is made of a scene"
        progress, home = self.feed.connection.progress(), self.feed.connection.home
        written = time.time_ns() // 1_000_000
        header: PageHeader = {
            "session": home.name,
            "status": alive_text(home, progress),
            "ended": ended,
            "written": written,
            "stamp": f"{written}.{next(self._numbers)}",
            "every": EVERY_S,
            "patience": PATIENCE_S,
            "tiles": self.tiles,
            "credit": self._credit,
        }
        return scene_json(self._scene, header, self._history.past())


def page(state: bytes, tiles: str = "off") -> bytes:
    """Return the page for a state in JSON; it may load images only from the tiles' server."""
    scheme, host = urlsplit(tiles)[:2]
    before, after = _template(f"{scheme}://{host}" if host else "")
    # Within a script element only `</` and `<!--` have a special meaning.
    return before + state.replace(b"<", b"\\u003c") + after


@cache
def _template(images: str) -> tuple[bytes, bytes]:
    """Return the parts of the page before and after its state; `images` are the allowed image sources."""
    script = "\n".join(_read(name) for name in _SCRIPTS)
    text = _read("page.html").replace("{{style}}", _read("page.css")).replace("{{script}}", script)
    text = text.replace("{{land}}", land_json()).replace("{{images}}", images)
    before, after = text.split("{{state}}")
    return before.encode(), after.encode()


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8").strip()


def scene_json(scene: Scene, header: PageHeader, past: Past) -> bytes:
    """Return a scene and the past before it as JSON, after the fields of a header."""
    value = {
        **header,
        "stream": scene.stream.name,
        "planar": scene.planar,
        "step": scene.places.step,
        "at": format_instant(scene.places.at_us),
        "leftOut": scene.left_out,
        "objects": orjson.Fragment(_objects(scene)),
        "queries": [_query(number, drawn, scene) for number, drawn in enumerate(scene.drawn)],
        "areas": [{"name": area.name, "rings": _rings(area, scene)} for area in scene.areas],
        "cells": scene.cells and {"bounds": scene.cells.bounds, "owners": scene.cells.owners},
        "key": scene.stream.spec.key,
        "tick": scene.stream.spec.tick_us / 1000,
        "past": orjson.Fragment(_past(past, scene)),
    }
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def _objects(scene: Scene) -> bytes:
    places, key = scene.places, scene.stream.spec.key
    has_records = places.records is not None and len(places) <= MOST_RECORDS
    table = places.records if has_records else None
    table = pa.table({key: places.keys}) if table is None else table
    columns = b",".join(
        orjson.dumps(name) + b":" + _list(json_fragments(table.column(name))) for name in table.column_names
    )
    numbers = {"x": _rounded(places.x, scene), "y": _rounded(places.y, scene), "slot": places.slot}
    value = {"there": places.there, "shapes": _extents(scene), **numbers}
    plain = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return plain[:-1] + b',"keys":' + _list(json_fragments(places.keys)) + b',"columns":{' + columns + b"}}"


def _extents(scene: Scene) -> PageExtents | None:
    """Return the extents of the scene's objects; None if all are points."""
    if scene.places.shapes is None:
        return None
    of, solid, lines = scene.places.lines()
    return {"of": of, "solid": solid, "lines": [_rounded(line, scene) for line in lines]}


def _past(past: Past, scene: Scene) -> bytes:
    """Return the past; queries are numbered as among the drawn ones, and others are omitted."""
    ids = np.array([drawn.query.id for drawn in scene.drawn], np.int64)
    changes = past.changes[np.isin(past.changes["query"], ids)]
    seen, order = past.sightings, np.argsort(ids)
    numbers = order[np.searchsorted(ids[order], changes["query"])] if len(ids) else changes["query"]
    columns = {
        "step": seen["step"],
        "object": seen["object"],
        "x": _rounded(seen["x"], scene),
        "y": _rounded(seen["y"], scene),
        "changes": {
            "step": changes["step"],
            "object": changes["object"],
            "query": numbers,
            "op": changes["op"].astype(np.int64),
        },
    }
    contiguous = orjson.dumps(columns, option=orjson.OPT_SERIALIZE_NUMPY, default=_contiguous)
    return contiguous[:-1] + b',"keys":' + _list(json_fragments(past.keys)) + b"}"


def _contiguous(values: object) -> NDArray[Any]:
    """Return a field of records as a contiguous array, which orjson can serialize."""
    return np.ascontiguousarray(values)


def _query(number: int, drawn: DrawnQuery, scene: Scene) -> PageQuery:
    spec, outline = drawn.query.spec, drawn.outline
    return {
        "name": drawn.query.name,
        "letter": LETTERS[number],
        "kind": spec.region.shape,
        "about": query_region_text(spec),
        "text": spec.text,
        "state": drawn.query.state,
        "size": drawn.size,
        "members": drawn.members,
        "rings": _rings(outline, scene),
        "centre": outline.centre,
        "focal": drawn.focal,
        "focalKey": outline.focal,
        "aggregate": spec.aggregates is not None,
        "shades": None if drawn.shades is None else _shades(drawn.shades, scene),
    }


def _shades(shades: RegionShades, scene: Scene) -> PageShades:
    regions: list[PageRegion] = [
        {
            "name": region.outline.name,
            "rings": _rings(region.outline, scene),
            "value": region.value,
            "text": number_text(region.value),
            "share": round(region.share, 4),
        }
        for region in shades.regions
    ]
    least, most = number_text(shades.least), number_text(shades.most)
    return {"column": shades.column, "least": least, "most": most, "regions": regions}


def _rings(outline: RegionOutline, scene: Scene) -> list[NDArray[Any]]:
    return [_rounded(ring, scene) for ring in outline.rings]


def _rounded(values: NDArray[Any], scene: Scene) -> NDArray[Any]:
    return np.ascontiguousarray(np.round(values, _DECIMALS[scene.planar]))


def _list(fragments: list[bytes]) -> bytes:
    return b"[" + b",".join(fragments) + b"]"
