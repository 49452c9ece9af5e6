"""Generate the chat messages of people in the sample's town, and the quarters in which they write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from random import Random

from stqsh.sources.generator.sample_extras import Corner, Corners, box_corners, choose, regions_text

SECONDS = 900
#: The seconds between two messages, and between two without a place.
_EVERY, _LOST = 1.5, 300
#: The size of the old town as a share of the whole town.
_MIDDLE = 0.3

_SENTENCES = {
    "football": (
        "Goal! Two nil",
        "Penalty, football at its best",
        "Football on big screen here",
        "Goal! Harbour wins",
        "Football fans sing everywhere",
    ),
    "music": (
        "Street music near bridge",
        "Brass band plays, music everywhere",
        "Music festival begins tonight",
        "Who dances with us tonight?",
    ),
    "rain": (
        "Rain without end, umbrella lost",
        "Heavy rain, streets under water",
        "Thunder, then rain",
        "Lost: blue umbrella",
    ),
    "food": (
        "Ice cream, queue of fifty",
        "Fresh fish, hot chips",
        "Best pizza in town",
        "Ice cream again",
    ),
    "traffic": (
        "Taxi wanted",
        "Taxi queue grows",
        "Train late again",
        "Bridge closed, traffic stands still",
        "Ambulance came through, make way!",
    ),
}
#: For each quarter, the topics from a minute on; a topic is chosen as often as it is listed.
_TALK: dict[str, dict[int, Sequence[str]]] = {
    "Gardens": {0: ("music", "music", "food"), 9: ("rain", "rain", "rain", "music")},
    "Harbour": {0: ("food", "food", "traffic"), 5: ("football", "football", "football", "food")},
    "Hill": {0: ("rain", "rain", "food"), 6: ("music", "food")},
    "Mill": {0: ("traffic", "food"), 3: ("rain", "rain", "traffic"), 9: ("food", "traffic")},
    "Old Town": {0: ("traffic", "music", "food"), 5: ("football", "music"), 10: ("traffic", "traffic")},
}
#: The quarters in which people write; a quarter is chosen as often as it is listed.
_BUSY = ("Gardens", "Harbour", "Harbour", "Hill", "Mill", "Old Town", "Old Town", "Old Town")
_ENDINGS = ("", "", " :-)", "!")


def chat_lines(start: datetime, town: Sequence[float]) -> list[str]:
    """Return the messages as JSON, ordered by time.

    Args:
        start: the earliest time of a message.
        town: x1, y1, x2, y2 in degrees.
    """
    draw = Random(11).random
    corners = _quarters(town)
    seconds = sorted(int(draw() * SECONDS) for _ in range(int(SECONDS / _EVERY)))
    lines = []
    for number, second in enumerate(seconds, 1):
        quarter = choose(_BUSY, draw)
        topic = choose(_topics(quarter, second), draw)
        x, y = _within(corners[quarter], draw)
        message = {
            "id": number,
            "lon": round(x, 6),
            "lat": round(y, 6),
            "ts": f"{start + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}",
            "topic": topic,
            "body": choose(_SENTENCES[topic], draw) + choose(_ENDINGS, draw),
        }
        if number == _LOST:
            del message["lon"], message["lat"]
        lines.append(json.dumps(message))
    return lines


def quarters_text(town: Sequence[float]) -> str:
    """Return the quarters of the town, x1, y1, x2, y2 in degrees, as GeoJSON; `quarter` names them."""
    return regions_text("quarter", _quarters(town))


def _topics(quarter: str, second: int) -> Sequence[str]:
    """Return the topics of a quarter at a number of seconds after the start."""
    begun = max(minute for minute in _TALK[quarter] if minute * 60 <= second)
    return _TALK[quarter][begun]


def _quarters(town: Sequence[float]) -> dict[str, Corners]:
    """Return the corners of the quarters: the old town, and the areas on its four sides."""
    west, south, east, north = town
    aside, below = (east - west) * (1 - _MIDDLE) / 2, (north - south) * (1 - _MIDDLE) / 2
    inner = box_corners(west + aside, south + below, east - aside, north - below)
    outer = box_corners(west, south, east, north)
    sides = {
        name: (outer[i], outer[(i + 1) % 4], inner[(i + 1) % 4], inner[i])
        for i, name in enumerate(("Harbour", "Gardens", "Hill", "Mill"))
    }
    return {"Old Town": inner, **sides}


def _within(corners: Corners, draw: Callable[[], float]) -> Corner:
    """Return a random place between four corners, at least a twentieth of the size from their edges."""
    u, v = (0.05 + 0.9 * draw() for _ in range(2))
    weights = (1 - u) * (1 - v), u * (1 - v), u * v, (1 - u) * v
    x, y = (sum(weight * at[axis] for weight, at in zip(weights, corners, strict=True)) for axis in (0, 1))
    return x, y
