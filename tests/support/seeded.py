"""Seeded cases of streams that retain what is significant, as scripts."""

from __future__ import annotations

import random

from support.cases import Case
from support.examples import SECOND, around, at, rect, register, spec
from support.scripts import ScriptCase, replayed

RETAINED = {"retain": "significant", "report_every_us": 4 * SECOND, "max_speed": 0.125}
"""Caches are 1.375 wide: (2 * 4 + 3) / 8."""


def significant_script(seed: int, objects: int = 50, steps: int = 60) -> ScriptCase:
    """Objects that wander over more land than queries ask for, fall silent, go and come back; queries that
    stand, that follow, that come later, pause and end.
    """
    draw = random.Random(seed)
    keys = [f"k{i:02}" for i in range(objects)]
    place = {key: (draw.uniform(0, 10), draw.uniform(0, 10)) for key in keys}
    rows = []
    for second in range(steps):
        for key in draw.sample(keys, objects // 3):
            x, y = (min(10.0, max(0.0, c + draw.gauss(0, 0.4))) for c in place[key])
            place[key] = x, y
            gone, late = draw.random() < 0.03, 3 * (draw.random() < 0.05)
            where = (None, None) if gone else (round(x, 3), round(y, 3))
            rows.append(at(key, *where, second - late, second))
    stream = spec(name="kept", **RETAINED)
    regions = [rect(a, b, a + 1.5, b + 1.5) for a in (0, 4, 8) for b in (1, 6)]
    regions += [around(key, 1.0, 1.5) for key in keys[:4]]
    regions += [{"type": "circle", "x": 3.0 * i, "y": 5.0, "radius": 0.75} for i in range(3)]
    regions += [{"type": "moving_circle", "focal": key, "radius": 0.5} for key in keys[4:7]]
    commands = []
    for i, region in enumerate(regions):
        query = register(300 + i, region, for_s=steps // 2 if i % 5 == 4 else None)["query"]
        query |= {"stream": "kept", "select": [[name, ["col", name]] for name in ("oid", "x", "n")]}
        query["options"] = {"dwell_us": 2 * SECOND} if i % 4 == 3 else {}
        commands.append((1 + (i % 3) * (steps // 8), {"op": "register", "query": query}))
    commands += [(steps // 2 + i, {"op": op, "id": 301}) for i, op in enumerate(("pause", "resume"))]
    commands.append((steps // 2, {"op": "drop", "id": 302}))
    commands.sort(key=lambda command: command[0])
    clock, records = replayed(stream, [rows])
    return ScriptCase(Case(stream, clock, records[-1][0], records, commands), [rows], "csv")
