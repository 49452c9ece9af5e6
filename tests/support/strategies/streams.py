"""Streams: their columns, when something comes in, and what.

Coordinates come from a half grid, and so do regions, so that points on borders are common.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from support.cases import Area, Clock, Row, Spec, Table

GRID = [i / 2 for i in range(-2, 3)]
TICKS_US = [1_000_000, 1_000_000, 250_000, 60_000_000, 1]
STRING_KEYS = ["a", "b", "B", "10", "9", "", "ä", "日本", "🚕", "\uffee", "a b", "o'x"]
INT_KEYS = [0, 1, 2, 10, 9, -1, -7, 300, 2**31 - 1, -(2**31)]
LONG_KEYS = [*INT_KEYS, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
TEXTS = [
    "street light out",
    "Street LIGHT! light, light",
    "pot-hole pot hole",
    "ÄRGER über die Straße",
    "日本 東京 ΟΔΟΣ",
    "taxi🚕taxi x²y ½",
    "a_b 50% o'clock",
    "!!!",
    "",
]
EXTRAS = {
    "status": ("STRING", ["free", "busy", "50%", "a_b", "", "\n"]),
    "n": ("BIGINT", [-2, -1, 0, 1, 2, 3]),
    "small": ("INT", [-1, 0, 1, 2]),
    "speed": ("DOUBLE", [-0.5, 0.0, 0.5, 1.0, 13.5]),
    "level": ("FLOAT", [0.0, 0.5, 1.5]),
    "flag": ("BOOLEAN", [True, False]),
    "seen": ("TIMESTAMP", []),
    "body": ("STRING", TEXTS),
}
EVERY = frozenset(
    {
        "circles",
        "polygons",
        "nearest",
        "events",
        "text",
        "joins",
        "inside",
        "dwell",
        "expressions",
        "functions",
        "around",
    }
)
"""All that a case may hold beside rectangles over moving objects and plain conditions."""


@dataclass(frozen=True)
class Scope:
    """What a query may speak of."""

    spec: Spec
    clock: Clock
    used: list[Any]
    features: frozenset[str] = frozenset()
    tables: dict[int, Table] = field(default_factory=dict)
    areas: dict[int, Area] = field(default_factory=dict)

    @property
    def types(self) -> dict[str, str]:
        """The stream's columns and their types."""
        return dict(self.spec["columns"])

    @property
    def moving(self) -> bool:
        """Whether there can be focal objects."""
        return bool(self.spec["kind"] == "moving")


@st.composite
def specs(draw: st.DrawFn, tick_us: int, features: frozenset[str] = frozenset(), stream_id: int = 1) -> Spec:
    """A stream: any key type, any column order, with and without silence as a sign of absence."""
    event = "events" in features and draw(st.integers(0, 2)) > 0
    key_type = draw(st.sampled_from(["STRING", "BIGINT", "INT"]))
    extras = draw(st.lists(st.sampled_from(list(EXTRAS)), unique=True, max_size=4))
    if "text" in features and draw(st.integers(0, 3)):
        extras = [*(e for e in extras if e != "body"), "body"]
    columns = [["oid", key_type], ["x", "DOUBLE"], ["y", "DOUBLE"], ["ts", "TIMESTAMP"]]
    columns = draw(st.permutations([*columns, *([name, EXTRAS[name][0]] for name in extras)]))
    lasts = draw(
        st.sampled_from([None, None, 1, tick_us, 2 * tick_us, 3 * tick_us + 1, 5 * tick_us, 9 * tick_us])
    )
    if event and "forgotten" in features:
        lasts = 0
    room = draw(st.sampled_from([None, None, 60, 150, 400, 1000])) if event and lasts != 0 else None
    return {
        "id": stream_id,
        "name": f"{'posts' if event else 'taxis'}{stream_id}",
        "kind": "event" if event else "moving",
        "columns": columns,
        "key": "oid",
        "x": "x",
        "y": "y",
        "time": "ts",
        "text": "body" if "body" in extras else None,
        "planar": draw(st.booleans()),
        "tick_us": tick_us,
        "report_every_us": None if event else lasts,
        "max_speed": None,
        "bounds": draw(st.sampled_from([None, [-3.0, -3.0, 3.0, 3.0], [0.0, 0.0, 0.5, 0.5]])),
        "grid": draw(st.sampled_from([None, None, 1, 2, 30, 256])),
        "order": "arrival",
        "retain": "all",
        "keep_us": lasts if event else None,
        "keep_bytes": room,
        "pace": None,
        "source": {"type": "file", "glob": "none", "format": None, "options": {}},
    }


def keys(spec: Spec) -> list[Any]:
    """The keys that may occur: few, so that they meet."""
    return {"STRING": STRING_KEYS, "INT": INT_KEYS, "BIGINT": LONG_KEYS}[dict(spec["columns"])[spec["key"]]]


def column_values(name: str, clock: Clock, steps: int) -> st.SearchStrategy[Any]:
    """Values of a further column, NULL among them."""
    values = EXTRAS[name][1] or [clock.at(1 + i * steps // 4) + d for i in range(5) for d in (-1, 0)]
    return st.sampled_from([None, *values])


@st.composite
def timelines(draw: st.DrawFn) -> list[int]:
    """The steps at which something comes in: mostly each one, now and then after a long silence."""
    gaps = draw(
        st.lists(st.sampled_from([1, 1, 1, 1, 1, 1, 2, 3, 5, 40, 3_000_000]), min_size=3, max_size=14)
    )
    at, steps = draw(st.sampled_from([0, 0, 0, 3])), []
    for gap in gaps:
        at += gap
        steps.append(at)
    return steps


@st.composite
def times(draw: st.DrawFn, clock: Clock, step: int) -> int:
    """A record's time: mostly in its step's tick (with ties), sometimes late (stale), rarely ahead."""
    lag = draw(st.sampled_from([*[0] * 10, 1, 1, 2, 5, -1]))
    within = draw(st.sampled_from([0, 0, clock.tick_us // 2, clock.tick_us - 1]))
    return clock.at(step - lag) + within


near = st.tuples(st.sampled_from(GRID), st.sampled_from(GRID))
far = st.tuples(st.sampled_from([-180.0, 180.0, 179.5, 0.1]), st.sampled_from([-90.0, 90.0, 0.0, 0.1, 60.0]))
places = st.one_of(*[near] * 6, far, st.just((None, None)))


@st.composite
def rows(draw: st.DrawFn, spec: Spec, clock: Clock, step: int, used: list[Any]) -> Row:
    """One record."""
    x, y = draw(places)
    row = {"oid": draw(st.sampled_from(used)), "x": x, "y": y, "ts": draw(times(clock, step))}
    for name, _ in spec["columns"]:
        if name not in row:
            row[name] = draw(column_values(name, clock, step))
    return row


def used_keys(spec: Spec) -> st.SearchStrategy[list[Any]]:
    """The keys of a case: few where records replace each other, more where each is an object."""
    most = 12 if spec["kind"] == "event" else 6
    return st.lists(st.sampled_from(keys(spec)), unique=True, min_size=2, max_size=most)
