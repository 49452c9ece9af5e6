"""Rectangles over the 180th meridian, that stand and that move, hold what is in them on both sides."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.local import local_session
from support.oracle.geometry import in_rectangle, is_around
from support.running import run_script

STEPS = 5
KEYS = [f"k{i}" for i in range(7)]
PLACES = (-180.0, 180.0, 179.9, -179.9, 179.5, -179.5, 178.75, -178.75, 0.0)
LATITUDES = (0.0, 0.5, -16.0, 60.0, 60.25)

Place = tuple[float, float]
Standing = tuple[float, float, float, float]
Moving = tuple[str, float, float]


def draw_case(draw: random.Random) -> tuple[list[dict[str, Place]], list[Standing], list[Moving]]:
    """Where each object is after each step, and what stands and moves."""
    now: dict[str, Place] = {}
    steps = []
    for step in range(STEPS):
        moved = KEYS if step == 0 else draw.sample(KEYS, 3)
        now = now | {key: (draw.choice(PLACES), draw.choice(LATITUDES)) for key in moved}
        steps.append(now)
    standing = [
        (west, south, west + draw.choice([0.25, 0.5, 1.5, 3.0]), south + draw.choice([0.25, 20.0, 80.0]))
        for west in draw.sample([178.5, 179.5, 179.75, 180.0, -181.5, -180.5, -180.0, 539.75], 4)
        for south in [draw.choice([-20.0, 0.0])]
    ]
    moving = [(key, draw.choice([2e4, 1.2e5, 4e5]), draw.choice([2e4, 4e6])) for key in draw.sample(KEYS, 4)]
    return steps, standing, moving


def script(
    folder: Path, steps: list[dict[str, Place]], standing: list[Standing], moving: list[Moving]
) -> str:
    lines = ["oid,lon,lat,ts"]
    for step, now in enumerate(steps):
        before = steps[step - 1] if step else {}
        lines += [f"{key},{x},{y},{step}" for key, (x, y) in now.items() if before.get(key) != (x, y)]
    (folder / "m.csv").write_text("\n".join(lines))
    asked = [f"INSIDE ({x1}, {y1}, {x2}, {y2})" for x1, y1, x2, y2 in standing]
    asked += [f"INSIDE RECT({x} m, {y} m) AROUND '{key}'" for key, x, y in moving]
    queries = [f"REGISTER QUERY q{i} AS SELECT oid FROM m {region};" for i, region in enumerate(asked)]
    create = (
        "CREATE MOVING STREAM m (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY oid"
        f" LOCATION (lon, lat) TIME ts FROM FILE '{folder}/m.csv' TICK 1 s;"
    )
    return "\n".join([create, *queries, "RUN;"])


def inside(place: Place, region: Standing) -> bool:
    """Whether a place is in a rectangle; within -180 to 180 the coordinates are taken as they are."""
    reaches_over = region[0] < -180 or region[2] > 180
    turns = (-720.0, -360.0, 0.0, 360.0, 720.0) if reaches_over else (0.0,)
    return any(in_rectangle((place[0] + turn, place[1]), *region) for turn in turns)


def expected(now: dict[str, Place], standing: list[Standing], moving: list[Moving]) -> list[set[str]]:
    """The members of each query, found one by one."""
    found = [{key for key, place in now.items() if inside(place, region)} for region in standing]
    return found + [
        {key for key, place in now.items() if key != focal and is_around(place, now[focal], x, y, False)}
        for focal, x, y in moving
    ]


@share(4)
@given(seed=st.integers(0, 2**32), slots=st.sampled_from([1, 3]), records=st.sampled_from([4, 400_000]))
def test_rectangles_go_on_beyond_the_meridian_in_every_step(seed: int, slots: int, records: int) -> None:
    steps, standing, moving = draw_case(random.Random(seed))
    with tempfile.TemporaryDirectory() as name, local_session(Path(name) / "home", slots, records) as session:
        output = run_script(session, script(Path(name), steps, standing, moving))
    updates = [json.loads(line) for line in output.splitlines()]
    members: list[set[str]] = [set() for _ in [*standing, *moving]]
    for step, now in enumerate(steps, start=1):
        for update in (update for update in updates if update["step"] == step):
            change = set.add if update["op"] == "+" else set.remove
            change(members[int(update["query"][1:])], update["key"])
        assert members == expected(now, standing, moving), f"step {step}"
