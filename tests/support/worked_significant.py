"""Examples of RETAIN SIGNIFICANT worked out by hand, after the figures of SOLE as far as its text tells them.

A tick is a second, REPORT EVERY 2.5 s and MAX SPEED 1/8, so that caches are 1 wide: (2 * 2.5 + 3) / 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.cases import Case, Command, Row
from support.examples import around, at, case, rect, register

Told = tuple[int, int, str, Any, str]
"""Step, query, op, key, why."""


@dataclass(frozen=True)
class Example:
    """What a case must bring: all updates, and after some steps the reference counts of what is kept."""

    case: Case
    told: list[Told]
    kept: dict[int, dict[Any, int]] = field(default_factory=dict)


def timed(steps: int, commands: list[tuple[int, Command]], records: list[tuple[int, Row]]) -> Case:
    """A planar stream that retains what is significant, with caches 1 wide."""
    return case(steps, commands, records, retain="significant", report_every_us=2_500_000, max_speed=0.125)


def significant_case(step: int, commands: list[tuple[int, Command]], places: dict[str, float]) -> Case:
    """Objects that report in one step, and queries."""
    return timed(step, commands, line(step, places))


def memory(factor: float = 1.0, k: int = 1, cache: float = 1.0, area: float = 1.0) -> Command:
    """What a stream's memory is told."""
    return {"op": "memory", "factor": factor, "k": k, "cache": cache, "area": area}


def least(accuracy: float, command: Command) -> Command:
    """A registration WITH min_accuracy."""
    return {"op": "register", "query": command["query"] | {"options": {"min_accuracy": accuracy}}}


def line(step: int, places: dict[str, float]) -> list[tuple[int, Row]]:
    """Records of a step on the line y = 0.5."""
    return [(step, at(key, x, 0.5, step - 1)) for key, x in places.items()]


def strip(low: float, high: float) -> dict[str, Any]:
    """The stretch of the line from `low` to `high`."""
    return rect(low, 0, high, 1)


AROUND_F = around("F", 2, 2)
"""1 to each side of F, and the cache 1 beyond."""

IN, CACHE, OUT = 1.0, 2.0, 5.0

FIGURE_8 = {"R1": -1.5, "R2": -0.75, "R3": 0.0, "R4": 0.75, "R5": 1.5, "R6": 2.25, "R7": 3.0, "none": 2.25}
"""Where objects are that F passes by, from 0 to 1.5; nobody has told of the last one in time."""

TEN = {
    "Q1": (0, 4),
    "Q2": (3, 13),
    "Q3": (8, 14.9),
    "Q4": (10, 16),
    "Q5": (15, 24),
    "Q6": (14, 30),
    "Q7": (100, 101),
}
ONCE = {"a": 1, "e": 5, "f": 6, "g": 100.5, "h": 25, "i": 26, "j": 27}
TWICE, THRICE = {"b": 3.5, "c": 8.5, "d": 9, "k": 21, "l": 22}, {"m": 11, "n": 14.5, "o": 15.5}
FIFTEEN = ONCE | TWICE | THRICE
REFS = dict.fromkeys(ONCE, 1) | dict.fromkeys(TWICE, 2) | dict.fromkeys(THRICE, 3)


def seven(accuracy: float) -> list[tuple[int, Command]]:
    """The seven queries of figure 10."""
    return [(1, least(accuracy, register(int(name[1:]), strip(*ends)))) for name, ends in TEN.items()]


def first_answers() -> list[Told]:
    """The fifteen objects of figure 10 as each query is told of them."""
    return [
        (1, int(name[1:]), "+", key, "")
        for name, (low, high) in TEN.items()
        for key, x in sorted(FIFTEEN.items())
        if low <= x <= high
    ]


def nine(step: int) -> list[tuple[int, Row]]:
    """Figure 7: nine objects go from in, cache and out (step 1) to in, cache and out (step 2)."""
    ways = [(start, end) for start in (IN, CACHE, OUT) for end in (IN, CACHE, OUT)]
    return line(step, {f"L{i}": way[step - 1] for i, way in enumerate(ways, start=1)})


EXAMPLES: dict[str, Example] = {
    "what leaves a still region is forgotten, what never was in it is not stored (figure 1)": Example(
        timed(
            3,
            [(1, register(2, strip(0, 1)))],
            [*line(1, {"p": 0.5, "far": 3}), *line(2, {"p": 1.5, "far": 1}), *line(3, {"p": 1.5})],
        ),
        [(1, 2, "+", "p", ""), (2, 2, "-", "p", "left"), (2, 2, "+", "far", "")],
        {1: {"p": 1}, 2: {"far": 1}, 3: {"far": 1}},
    ),
    "a new query does not know of objects that nobody asked for (figure 2, P4)": Example(
        timed(
            4,
            [(2, register(2, strip(0, 1)))],
            [*line(1, {"p": 0.5}), *line(3, {"p": 3, "other": 0.5}), *line(4, {"p": 0.5})],
        ),
        [(3, 2, "+", "other", ""), (4, 2, "+", "p", "")],
        {1: {}, 2: {}, 3: {"other": 1}, 4: {"other": 1, "p": 1}},
    ),
    "the cache knows what the region comes to cover as it moves (figure 3, P4)": Example(
        timed(
            3,
            [(1, register(2, AROUND_F))],
            [
                *line(1, {"F": 0, "P1": 0.5, "P4": 1.5, "P7": 2.5}),
                *line(2, {"F": 0.5}),
                *line(3, {"F": 0.5, "P7": 1.25}),
            ],
        ),
        [(1, 2, "+", "P1", ""), (2, 2, "+", "P4", ""), (3, 2, "+", "P7", "")],
        {1: {"F": 0, "P1": 1, "P4": 1}, 2: {"F": 0, "P1": 1, "P4": 1}},
    ),
    "without a cache it is missed (figure 2, P1)": Example(
        timed(
            2,
            [(1, memory(factor=0)), (1, register(2, AROUND_F))],
            [*line(1, {"F": 0, "P1": 0.5, "P4": 1.5}), *line(2, {"F": 0.5})],
        ),
        [(1, 2, "+", "P1", "")],
        {1: {"F": 0, "P1": 1}, 2: {"F": 0, "P1": 1}},
    ),
    "the nine ways from in, cache or out to in, cache or out (figure 7)": Example(
        timed(2, [(1, register(2, AROUND_F))], [*line(1, {"F": 0}), *nine(1), *line(2, {"F": 0}), *nine(2)]),
        [
            *[(1, 2, "+", f"L{i}", "") for i in (1, 2, 3)],
            (2, 2, "-", "L2", "left"),
            (2, 2, "-", "L3", "left"),
            (2, 2, "+", "L4", ""),
            (2, 2, "+", "L7", ""),
        ],
        {
            1: {"F": 0} | {f"L{i}": 1 for i in (1, 2, 3, 4, 5, 6)},
            2: {"F": 0} | {f"L{i}": 1 for i in (1, 2, 4, 5, 7, 8)},
        },
    ),
    "the seven regions that a region passes (figure 8)": Example(
        timed(
            2,
            [(1, register(2, AROUND_F)), (1, register(3, strip(2, 4)))],
            [*line(1, {"F": 0} | {k: x for k, x in FIGURE_8.items() if k != "none"}), *line(2, {"F": 1.5})],
        ),
        [
            *[(1, 2, "+", key, "") for key in ("R2", "R3", "R4")],
            *[(1, 3, "+", key, "") for key in ("R6", "R7")],
            *[(2, 2, "-", key, "left") for key in ("R2", "R3")],
            *[(2, 2, "+", key, "") for key in ("R5", "R6")],
        ],
        {
            1: {"F": 0, "R1": 1, "R2": 1, "R3": 1, "R4": 1, "R5": 1, "R6": 1, "R7": 1},
            2: {"F": 0, "R3": 1, "R4": 1, "R5": 1, "R6": 2, "R7": 2},
        },
    ),
    "smaller areas make answers poorer, but not always memory (figure 10b)": Example(
        timed(
            3,
            [*seven(0.0), (2, memory(area=0.5625)), (3, memory())],
            [*line(1, FIFTEEN), *line(3, {"o": 15.5})],
        ),
        [
            *first_answers(),
            *[(2, *minus) for minus in ((2, "-", "b", "shed"), (3, "-", "c", "shed"), (3, "-", "n", "shed"))],
            *[(2, query, "-", key, "shed") for query, key in ((4, "o"), (5, "o"), (6, "n"), (6, "o"))],
            *[(3, query, "+", key, "") for query, key in ((2, "b"), (3, "c"), (3, "n"), (4, "o"), (5, "o"))],
            *[(3, 6, "+", key, "") for key in ("n", "o")],
        ],
        {
            1: REFS,
            2: {k: r for k, r in REFS.items() if k != "o"} | {"b": 1, "c": 1, "n": 1},
            3: REFS,
        },
    ),
    "objects of few queries are dropped when they report, where no query is locked (figure 10c, d)": Example(
        timed(
            3,
            [*seven(0.6), (2, memory(k=2)), (3, memory())],
            [
                *line(1, FIFTEEN),
                *line(2, {key: FIFTEEN[key] for key in "aceghij"}),
                *line(3, {key: FIFTEEN[key] for key in "ehi"}),
            ],
        ),
        [
            *first_answers(),
            (2, 2, "-", "e", "shed"),
            (2, 6, "-", "h", "shed"),
            (2, 6, "-", "i", "shed"),
            (3, 2, "+", "e", ""),
            (3, 6, "+", "h", ""),
            (3, 6, "+", "i", ""),
        ],
        {1: REFS, 2: {k: r for k, r in REFS.items() if k not in "ehi"}, 3: REFS},
    ),
}


def drive_past(factor: float) -> Case:
    """F drives at MAX SPEED, and now and then reports twice while one by the road does not.

    With REPORT EVERY 8 s and MAX SPEED 1/8 the cache is (2 * 8 + 3) / 8 = 2.375 wide; F may be 14 s farther
    on, 1.75 units, than where slots took it to be when what stands by the road reported: 0.74 of the cache.
    """
    road, steps = {f"p{i:03}": i / 16 for i in range(-16, 160)}, 75
    rounds, records = range(0, steps, 15), []
    for begin in rounds:
        for step in (begin + 8, begin + 16):
            records += [(step, at(key, x, 0.5, step - 1)) for key, x in road.items()]
        for step in (begin + 1, begin + 9, begin + 15):
            records.append((step, at("F", (step - 1) / 8, 0.5, step - 1)))
    records = sorted((item for item in records if item[0] <= steps), key=lambda item: item[0])
    commands = [(1, memory(factor)), (1, register(2, around("F", 0.125, 1)))]
    return case(steps, commands, records, retain="significant", report_every_us=8_000_000, max_speed=0.125)
