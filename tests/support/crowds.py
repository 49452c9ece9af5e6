"""Seeded crowds: cases of hundreds of objects and queries, where hypothesis only draws a handful."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from support.cases import Case, Clock, Command, Row, Spec
from support.examples import SECOND, around, at, rect, register, spec
from support.oracle import accepted

SIDE = 20


def crowd(seed: int, objects: int, queries: int, steps: int, planar: bool = True) -> Case:
    """Objects on a grid of whole numbers, many of them on borders; some late, some silent, some gone."""
    draw = random.Random(seed)
    keys: list[Any] = [f"k{i}" for i in range(objects)]
    records = []
    for step in range(1, steps + 1):
        for key in draw.sample(keys, objects // 3):
            records.append((step, _record(draw, key, step)))
    when = sorted(draw.choice([1, 1, 1, 2, 3, steps // 2]) for _ in range(queries))
    commands = [(step, _query(draw, 10 + i, keys)) for i, step in enumerate(when)]
    commands += _later(draw, commands, steps)
    commands.sort(key=lambda command: command[0])
    stream: Spec = spec(planar=planar, report_every_us=4 * SECOND)
    return Case(stream, Clock(0, SECOND), steps, records, commands)


def crowd_of_kinds(seed: int, objects: int, queries: int, steps: int, event: bool) -> Case:
    """The same crowd, asked by all kinds of queries: for circles, polygons, neighbours, words, with dwell."""
    draw = random.Random(seed)
    keys: list[Any] = [f"k{i}" for i in range(objects)]
    records = []
    for step in range(1, steps + 1):
        for key in draw.sample(keys, objects // 3):
            words = " ".join(draw.choices(WORDS, weights=range(len(WORDS), 0, -1), k=draw.randint(0, 5)))
            records.append((step, _record(draw, key, step) | {"body": draw.choice([words, words, None])}))
    when = sorted(draw.choice([1, 1, 1, 2, 3, steps // 2]) for _ in range(queries))
    commands = [(step, _query_of_any_kind(draw, 10 + i, keys, event)) for i, step in enumerate(when)]
    commands += _later(draw, commands, steps)
    commands.sort(key=lambda command: command[0])
    lasts = (
        {"kind": "event", "text": "body", "keep_us": 4 * SECOND} if event else {"report_every_us": 4 * SECOND}
    )
    columns = [*spec()["columns"], ["body", "STRING"]]
    stream: Spec = spec(planar=seed % 2 == 0, columns=columns, **lasts)
    clock = Clock(0, SECOND)
    return Case(stream, clock, steps, accepted(stream, clock, records), commands)


def limited_crowd(seed: int, objects: int, queries: int, steps: int, event: bool) -> Case:
    """The same crowd, but the queries for regions have LIMIT; many are for the same region."""
    whole = crowd_of_kinds(seed, objects, queries, steps, event)
    draw, commands = random.Random(seed), []
    for step, command in whole.commands:
        changed: Command = {}
        if command.get("query", {}).get("kind") == "range":
            order = [
                [["col", name], draw.random() < 0.5, draw.random() < 0.3]
                for name in draw.sample(["n", "body", "x"], draw.randint(0, 2))
            ]
            first = {"order": order, "limit": draw.choice([1, 2, 3, 10, 1000])}
            query = command["query"] | {"kind": "first", "first": first, "select": [], "options": {}}
            if draw.random() < 0.5:
                query |= {"region": {"type": "all"}, "condition": None}
            changed = {"query": query}
        commands.append((step, command | changed))
    return replace(whole, commands=commands)


def significant_crowd(seed: int, objects: int, queries: int, steps: int) -> Case:
    """The same crowd over a stream that retains what is significant; half-way memory is told to shed."""
    whole = crowd_of_kinds(2 * seed, objects, queries, steps, event=False)
    draw, commands = random.Random(seed), []
    neighbours = {query["id"] for query in whole.queries if query["kind"] == "nearest"}
    for step, command in whole.commands:
        query = command.get("query", {})
        if (query or command)["id"] in neighbours:
            continue
        if query and query["region"].get("radius", 0.0) > SIDE:
            query["region"]["radius"] = draw.choice([0.0, 0.5, 1.0])
        commands.append((step, command))
    shed = {"op": "memory", "factor": 1.0, "k": 2, "cache": 0.5, "area": 0.5625}
    commands += [(steps // 2, shed), (steps // 2 + 3, shed | {"k": 1, "cache": 1.0, "area": 1.0})]
    commands.sort(key=lambda item: item[0])
    kept = {"retain": "significant", "max_speed": 1 / 11}  # caches are 1 wide
    return Case(whole.spec | kept, whole.clock, steps, whole.records, commands)


WORDS = ["street", "light", "out", "pot", "hole", "tree", "snow", "rodent", "sign", "noise", "ä", "日本"]


def _query_of_any_kind(draw: random.Random, query_id: int, keys: list[str], event: bool) -> Command:
    x, y = float(draw.randint(-1, SIDE)), float(draw.randint(-1, SIDE))
    size = draw.choice([1, 2, 3, 5])
    centre: Spec = {"x": x, "y": y} if event or draw.random() < 0.6 else {"focal": draw.choice(keys)}
    kind = draw.choice(["rect", "circle", "circle", "polygon", "nearest", "nearest"])
    if kind == "nearest":
        region = {"type": "nearest", "k": draw.choice([1, 2, 5, 20, 1000]), **centre}
    elif kind == "circle":
        radius = size * (1.0 if draw.random() < 0.5 else 111_195.1)
        region = {"type": "moving_circle" if "focal" in centre else "circle", "radius": radius, **centre}
    elif kind == "polygon":
        ring = [[x, y], [x + size, y], [x + size / 2, y + size / 2], [x, y + size], [x, y]]
        region = {"type": "polygon", "rings": [ring]}
    else:
        region = rect(x, y, x + size, y + size)
    parts = [draw.choice(_CONDITIONS)] if draw.random() < 0.3 else []
    if draw.random() < (0.8 if event else 0.3):
        asked = " ".join(draw.sample(WORDS, draw.randint(1, 3)))
        parts.append(["contains", ["col", "body"], asked, draw.choice(["all", "any"])])
    condition = ["and", parts] if len(parts) > 1 else (parts or [None])[0]
    command = register(query_id, region, condition, draw.choice([None] * 9 + [3]))
    if kind == "nearest":
        command["query"] |= {"kind": "nearest", "select": [["far", ["distance"]]]}
    elif draw.random() < 0.2:
        command["query"]["options"] = {"dwell_us": draw.choice([1, 2, 3]) * SECOND}
    return command


def _record(draw: random.Random, key: str, step: int) -> Row:
    gone = draw.random() < 0.05
    x, y = (None, None) if gone else (draw.randint(0, SIDE), draw.randint(0, SIDE))
    late = draw.choice([0, 0, 0, 0, 0.5, 1, 3, 6])
    return at(key, x, y, step - 1 - late, draw.choice([None, 0, 1, 2, 3]))


def _query(draw: random.Random, query_id: int, keys: list[str]) -> Command:
    x, y = draw.randint(-1, SIDE), draw.randint(-1, SIDE)
    w, h = draw.choice([0, 1, 2, 4, SIDE]), draw.choice([0, 1, 2, 4])
    region = rect(x, y, x + w, y + h)
    if draw.random() < 0.4:
        region = around(draw.choice(keys[: len(keys) // 4]), 2 * w, 2 * h)
    condition = draw.choice([None, None, *_CONDITIONS])
    return register(query_id, region, condition, draw.choice([None] * 9 + [3]))


_N = ["col", "n"]
_CONDITIONS: list[Any] = [
    ["cmp", ">=", _N, ["lit", 2, "BIGINT"]],
    ["not", ["cmp", "=", _N, ["lit", 1, "BIGINT"]]],
    ["or", [["isnull", _N], ["in", _N, [["lit", 0, "BIGINT"], ["lit", 3, "BIGINT"]]]]],
    ["cmp", ">", ["col", "ts"], ["arith", "-", ["now"], ["dur", 2 * SECOND]]],
]


def _later(
    draw: random.Random, registered: list[tuple[int, Command]], steps: int
) -> list[tuple[int, Command]]:
    """Drops, pauses and resumes of some of the queries, after their registration."""
    out = []
    for since, command in registered:
        step = since
        for op in draw.choice([[]] * 4 + [["drop"], ["pause", "resume"], ["pause"]]):
            step = min(steps, step + draw.randint(1, steps // 3))
            out.append((step, {"op": op, "id": command["query"]["id"]}))
    return out
