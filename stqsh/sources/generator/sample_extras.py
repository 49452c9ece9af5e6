"""Generate the posts, the favourite taxis and the zones of the sample's town."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

Corner = tuple[float, float]
Corners = tuple[Corner, Corner, Corner, Corner]

POSTS = 400
FAVOURITES = 24
_SECONDS = 895
_BODIES = (
    "No taxi at the station, as always",
    "Waiting for a taxi with three suitcases",
    "Taxi to the harbour, who shares?",
    "Is there a cab that takes a bicycle?",
    "The train is late again",
    "Ice cream at the station, a queue of fifty",
    "An ambulance just came through, make way!",
    "Street music on the bridge",
    "Lost: a blue umbrella",
    "Sunset from the church tower",
    "Where does one dance tonight?",
    "Quiz in the pub, we need a fourth",
)
_ENDINGS = ("", " :-)", " #saturday", " (and it rains)", " - anyone?")
_LANGUAGES = ("de", "de en", "en", "de tr", "en fr", "de pl")
_DRIVERS = (
    "Ada",
    "Bilal",
    "Chiara",
    "Dragan",
    "Elif",
    "Femi",
    "Grete",
    "Hiro",
    "Ines",
    "Jakub",
    "Kofi",
    "Luis",
)
_AT = "{:%Y-%m-%dT%H:%M:%SZ}"
_MARKET = "10.0262 50.0142, 10.0276 50.0142, 10.0276 50.0151, 10.0262 50.0151, 10.0262 50.0142"
_FAIR = "10.03 50.0175, 10.032 50.0175, 10.031 50.0185, 10.03 50.0175"
_CLOSURES = (
    (0, f'market,"POLYGON (({_MARKET}))",{_AT}'),
    (0, f'bridge,"LINESTRING (10.014 50.012, 10.0185 50.0135)",{_AT}'),
    (20, f'tram works,"LINESTRING (10.0285 50.0152, 10.031 50.0165, 10.0345 50.0168)",{_AT}'),
    (40, f'fair,"POLYGON (({_FAIR}))",{_AT}'),
    (55, f"market,,{_AT}"),
)
"""Closures as lines of CSV, each with the second at which it is reported."""


def post_lines(start: datetime, town: Sequence[float], station: Sequence[float]) -> list[str]:
    """Return the posts as JSON, ordered by time; a third are from the station, and one has no place.

    Args:
        town, station: x1, y1, x2, y2 in degrees.
    """
    draw = Random(9).random
    seconds = sorted(int(draw() * _SECONDS) for _ in range(POSTS))
    lines = []
    for number, second in enumerate(seconds, 1):
        x1, y1, x2, y2 = station if number % 3 == 0 else town
        post = {
            "id": number,
            "lon": round(x1 + draw() * (x2 - x1), 6),
            "lat": round(y1 + draw() * (y2 - y1), 6),
            "ts": f"{start + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}",
            "body": choose(_BODIES, draw) + choose(_ENDINGS, draw),
        }
        if number == POSTS // 2:
            del post["lon"], post["lat"]
        lines.append(json.dumps(post))
    return lines


def favourite_lines(taxis: Sequence[str]) -> list[str]:
    """Return the table of favourites as CSV: some taxis with their drivers and stars."""
    draw, left = Random(9).random, list(taxis)
    chosen = sorted(left.pop(int(draw() * len(left))) for _ in range(FAVOURITES))
    rows = [
        f"{oid},{_DRIVERS[number % len(_DRIVERS)]},{3 + int(draw() * 3)}" for number, oid in enumerate(chosen)
    ]
    return ["oid,driver,stars", *rows]


def driver_lines() -> list[str]:
    """Return the table of drivers as CSV: the languages and the years of driving of each."""
    rows = [
        f"{name},{_LANGUAGES[number % len(_LANGUAGES)]},{number * 7 % 23 + 1}"
        for number, name in enumerate(_DRIVERS)
    ]
    return ["name,languages,years", *rows]


def closure_lines(start: datetime) -> list[str]:
    """Return closed streets and squares as CSV with WKT, ordered by time; the market is open in the end."""
    return ["id,shape,ts", *(closure.format(start + timedelta(seconds=late)) for late, closure in _CLOSURES)]


def zones_text(town: Sequence[float]) -> str:
    """Return the four quarters of the town, x1, y1, x2, y2 in degrees, as GeoJSON; `zone` names them."""
    west, south, east, north = town
    x, y = (west + east) / 2, (south + north) / 2
    zones = {
        "north-west": box_corners(west, y, x, north),
        "north-east": box_corners(x, y, east, north),
        "south-west": box_corners(west, south, x, y),
        "south-east": box_corners(x, south, east, y),
    }
    return regions_text("zone", zones)


def box_corners(x1: float, y1: float, x2: float, y2: float) -> Corners:
    """Return the corners of a box, counter-clockwise from the south-west corner."""
    return (x1, y1), (x2, y1), (x2, y2), (x1, y2)


def regions_text(word: str, regions: Mapping[str, Corners]) -> str:
    """Return regions, given by their names, as GeoJSON; the property `word` names them."""
    features = [
        {
            "type": "Feature",
            "properties": {word: name},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[round(x, 6), round(y, 6)] for x, y in (*corners, corners[0])]],
            },
        }
        for name, corners in regions.items()
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


def choose(choices: Sequence[str], draw: Callable[[], float]) -> str:
    """Choose one at random; only `Random.random` gives the same results in every version of Python."""
    return choices[int(draw() * len(choices))]
