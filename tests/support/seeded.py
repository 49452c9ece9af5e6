"""Seeded cases as scripts: objects that move, posts, and a stream that retains what is significant."""

from __future__ import annotations

import random
from collections.abc import Iterator

from support.cases import Case
from support.examples import SECOND, around, at, rect, register, spec
from support.scripts import ScriptCase, replayed

RETAINED = {"retain": "significant", "report_every_us": 4 * SECOND, "max_speed": 0.125}
"""Caches are 1.375 wide: (2 * 4 + 3) / 8."""

_MARKETS = "POLYGON((0 0, 6 0, 6 6, 0 6, 0 0), (2 2, 4 2, 4 4, 2 4, 2 2))"
AGGREGATES = (
    "SELECT COUNT(*), SUM(x), AVG(n), MIN(oid), MAX(y) FROM taxis",
    "SELECT HOUR(ts) AS h, n % 7 AS rest, COUNT(*), AVG(x), SUM(n) FROM taxis GROUP BY HOUR(ts), n % 7",
    "SELECT n % 5 AS rest, COUNT(DISTINCT oid), MAX(ts) FROM taxis INSIDE RECT(1, 1, 8, 8) GROUP BY rest"
    " HAVING COUNT(*) > 2",
    "SELECT n % 9 AS rest, COUNT(*) FROM taxis GROUP BY rest ORDER BY COUNT(*) DESC LIMIT 3",
    "SELECT COUNT(*), AVG(y) FROM taxis INSIDE CIRCLE(3) AROUND 'k03'",
    f"SELECT COUNT(*), SUM(y) FROM taxis INSIDE {_MARKETS} SYNC 7 s",
    "SELECT n % 3 AS rest, AVG(x), MIN(y) FROM taxis GROUP BY rest WINDOW 20 s SLIDE 5 s",
    "SELECT COUNT(*), AVG(x), MAX(n) FROM taxis NEAREST 5 TO (5, 5)",
    "SELECT n % 2 AS half, COUNT(*), SUM(x) FROM taxis NEAREST 7 TO 'k11' GROUP BY half",
    "SELECT COUNT(*), TOPK(body, 3), AVG(x) FROM posts",
    "SELECT n % 4 AS rest, TOPK(body, 2), COUNT(DISTINCT body) FROM posts GROUP BY rest SYNC 3 s",
    "SELECT body, COUNT(*), SUM(y) FROM posts INSIDE RECT(0, 0, 9, 5) GROUP BY body WINDOW 10 s SLIDE 4 s",
    "SELECT TOPK(body, 1), MIN(ts) FROM posts WHERE body CONTAINS 'street' WINDOW 6 s",
    "SELECT COUNT(*), TOPK(body, 2) FROM posts NEAREST 6 TO (4, 4)",
    "SELECT COUNT(*), AVG(x), MIN(ts) FROM taxis NEAREST 5 TO 'k13' SYNC 4 s",
    "SELECT COUNT(*), MIN(oid) FROM posts NEAREST 5 TO (3, 3) WINDOW 9 s SLIDE 2 s",
    "SELECT MIN(ts) > NOW - 4 s AS fresh, COUNT(*) FROM taxis NEAREST 2 TO (6, 4)",
    "SELECT ts > NOW - 5 s AS fresh, COUNT(*) FROM taxis NEAREST 6 TO 'k02' GROUP BY fresh",
)
"""Aggregates over the streams of `moving_script` and `posts_script`: that follow, are refreshed, and end."""


def with_aggregates(text: str) -> str:
    """Return the text of a script that registers the aggregates, too, before it first runs."""
    before, run, after = text.partition("\nRUN")
    asked = (
        f"REGISTER QUERY a{number:02}{' FOR 3 min' if number % 6 == 1 else ''} AS {select};"
        for number, select in enumerate(AGGREGATES)
    )
    return "\n".join([before, *asked]) + run + after


def wandering(
    draw: random.Random, keys: list[str], steps: int, stride: float
) -> Iterator[tuple[int, str, float, float]]:
    """Move a third of the objects in each second; yield the second, the key and the new place."""
    place = {key: (draw.uniform(0, 10), draw.uniform(0, 10)) for key in keys}
    for second in range(steps):
        for key in draw.sample(keys, len(keys) // 3):
            x, y = (min(10.0, max(0.0, c + draw.gauss(0, stride))) for c in place[key])
            place[key] = x, y
            yield second, key, x, y


def significant_script(seed: int, objects: int = 50, steps: int = 60) -> ScriptCase:
    """Objects that wander over more land than queries ask for, fall silent, go and come back; queries that
    stand, that follow, that come later, pause and end.
    """
    draw = random.Random(seed)
    keys = [f"k{i:02}" for i in range(objects)]
    rows = []
    for second, key, x, y in wandering(draw, keys, steps, 0.4):
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


def moving_script(seed: int, objects: int = 50, steps: int = 150) -> ScriptCase:
    """Objects that wander, fall silent, go and come back; queries that stand and that follow."""
    draw = random.Random(seed)
    keys = [f"k{i:02}" for i in range(objects)]
    rows = []
    for second, key, x, y in wandering(draw, keys, steps, 0.7):
        gone = draw.random() < 0.03
        late = 3 * (draw.random() < 0.1)
        row = at(key, None if gone else round(x, 3), None if gone else round(y, 3), second - late, second)
        rows.append(row)
    stream = spec(report_every_us=8 * SECOND)
    regions = [rect(a, b, a + 3, b + 3) for a in range(0, 8, 2) for b in range(0, 8, 4)]
    regions += [around(key, 3.0, 4.0) for key in keys[:6]]
    regions += [{"type": "circle", "x": 2.0 * i, "y": 5.0, "radius": 2.0} for i in range(5)]
    regions += [{"type": "moving_circle", "focal": key, "radius": 1.5} for key in keys[6:10]]
    regions += [{"type": "nearest", "k": 1 + 2 * i, "x": 2.0 * i, "y": 5.0} for i in range(5)]
    regions += [{"type": "nearest", "k": 3, "focal": key} for key in keys[10:14]]
    commands = [(1, register(10 + i, region)) for i, region in enumerate(regions)]
    for number, (_, command) in enumerate(commands):
        query = command["query"]
        query["select"] = [[name, ["col", name]] for name in ("oid", "x", "n")]
        if query["region"]["type"] == "nearest":
            query["kind"] = "nearest"
            query["select"].append(["far", ["distance"]])
        elif number % 3 == 0:
            query["options"] = {"dwell_us": 3 * SECOND}
    clock, records = replayed(stream, [rows])
    return ScriptCase(Case(stream, clock, records[-1][0], records, commands), [rows], "csv")


def posts_script(seed: int, steps: int = 150) -> ScriptCase:
    """Posts of a few words, some of which come twice; rectangles and neighbours that ask for words."""
    draw = random.Random(seed)
    words = ["street", "light", "out", "pot", "hole", "tree"]
    rows = []
    for second in range(steps):
        for _ in range(5):
            key, body = f"p{draw.randrange(1000)}", " ".join(draw.sample(words, 3))
            x, y = round(draw.uniform(0, 10), 3), round(draw.uniform(0, 10), 3)
            rows.append({**at(key, x, y, second, second), "body": body})
    columns = [*spec()["columns"], ["body", "STRING"]]
    stream = spec(name="posts", kind="event", keep_us=20 * SECOND, text="body", columns=columns)
    commands = []
    for i, asked in enumerate([*words, "street light", "pot hole", "tree out"]):
        how = ["all", "any"][i % 2]
        place = (
            {"type": "nearest", "k": 4, "x": float(i), "y": 5.0} if i % 3 == 0 else rect(i - 3, 0, i + 3, 9)
        )
        command = register(100 + i, place, ["contains", ["col", "body"], asked, how])
        command["query"] |= {
            "stream": "posts",
            "select": [["oid", ["col", "oid"]], ["body", ["col", "body"]]],
        }
        command["query"]["kind"] = "nearest" if i % 3 == 0 else "range"
        commands.append((1, command))
    clock, records = replayed(stream, [rows])
    return ScriptCase(Case(stream, clock, records[-1][0], records, commands), [rows], "jsonl")
