"""The quarters of the sample's town, as GeoJSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def zones_text(town: Sequence[float]) -> str:
    """Return the town (x1, y1, x2, y2 in degrees) cut in four, as features that are named by `zone`."""
    west, south, east, north = town
    x, y = (west + east) / 2, (south + north) / 2
    boxes = {
        "north-west": (west, y, x, north),
        "north-east": (x, y, east, north),
        "south-west": (west, south, x, y),
        "south-east": (x, south, east, y),
    }
    features = [_feature(name, *box) for name, box in boxes.items()]
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


def _feature(name: str, x1: float, y1: float, x2: float, y2: float) -> dict[str, Any]:
    corners = ((x1, y1), (x2, y1), (x2, y2), (x1, y2), (x1, y1))
    ring = [[round(x, 6), round(y, 6)] for x, y in corners]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "properties": {"zone": name}, "geometry": geometry}
