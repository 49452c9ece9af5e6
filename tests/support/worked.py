"""Examples of the law worked out by hand: a case, and what must be told as (step, op, key, why)."""

from __future__ import annotations

from support.examples import around, at, case, rect, register

UNIT = rect(0, 0, 1, 1)
DROP = {"op": "drop", "id": 2}
PAUSE, RESUME = {"op": "pause", "id": 2}, {"op": "resume", "id": 2}


EXAMPLES = {
    "enters, moves inside without a word, leaves": (
        case(
            4,
            [(1, register(2, UNIT))],
            [(1, at("a", 0, 0, 0)), (2, at("a", 1, 1, 1)), (3, at("a", 1.1, 1, 2))],
        ),
        [(1, "+", "a", ""), (3, "-", "a", "left")],
    ),
    "in and out within a step is nothing": (
        case(2, [(1, register(2, UNIT))], [(1, at("a", 0, 0, 0)), (1, at("a", 5, 5, 0.5))]),
        [],
    ),
    "of equal times the later in the log wins, an older one is stale": (
        case(
            2,
            [(1, register(2, UNIT))],
            [(1, at("a", 5, 5, 0)), (1, at("a", 0, 0, 0)), (2, at("a", 5, 5, -1))],
        ),
        [(1, "+", "a", "")],
    ),
    "silence disconnects once the record is strictly older, a record brings back": (
        case(
            9,
            [(1, register(2, UNIT))],
            [(1, at("a", 0, 0, 0)), (6, at("a", 0, 0, 5))],
            report_every_us=2_000_000,
        ),
        [(1, "+", "a", ""), (4, "-", "a", "disconnected"), (6, "+", "a", ""), (9, "-", "a", "disconnected")],
    ),
    "born disconnected": (
        case(5, [(1, register(2, UNIT))], [(4, at("a", 0, 0, 0))], report_every_us=2_000_000),
        [],
    ),
    "an empty location takes away, and an older record does not bring back": (
        case(
            4,
            [(1, register(2, UNIT))],
            [(1, at("a", 0, 0, 0)), (2, at("a", None, None, 2)), (3, at("a", 0, 0, 1))],
        ),
        [(1, "+", "a", ""), (2, "-", "a", "gone")],
    ),
    "gone and silent is disconnected": (
        case(
            5,
            [(1, register(2, UNIT))],
            [(1, at("a", 0, 0, 0)), (4, at("a", None, None, 0))],
            report_every_us=2_999_999,
        ),
        [(1, "+", "a", ""), (4, "-", "a", "disconnected")],
    ),
    "a focal object is not in its own answer, but in another's": (
        case(
            1,
            [(1, register(2, around("a", 2, 2))), (1, register(3, around("b", 2, 2)))],
            [(1, at("a", 0, 0, 0)), (1, at("b", 1, 1, 0)), (1, at("c", 1.5, 0, 0))],
        ),
        [(1, "+", "b", ""), (1, "+", "a", ""), (1, "+", "c", "")],
    ),
    "a focal object vanishes, its members leave; it returns": (
        case(
            4,
            [(1, register(2, around("a", 2, 2)))],
            [
                (1, at("a", 0, 0, 0)),
                (1, at("b", 1, 1, 0)),
                (2, at("a", None, None, 1)),
                (3, at("a", 0, 1, 2)),
            ],
        ),
        [(1, "+", "b", ""), (2, "-", "b", "left"), (3, "+", "b", "")],
    ),
    "FOR ends at the first step that starts late enough": (
        case(5, [(2, register(2, UNIT, for_s=1.5))], [(1, at("a", 0, 0, 0)), (4, at("b", 0, 0, 3))]),
        [(2, "+", "a", ""), (4, "-", "a", "ended")],
    ),
    "a drop tells what was held, and not what the step brings": (
        case(
            3,
            [(1, register(2, UNIT)), (2, DROP)],
            [(1, at("a", 0, 0, 0)), (2, at("a", 5, 5, 1)), (2, at("b", 0, 0, 1))],
        ),
        [(1, "+", "a", ""), (2, "-", "a", "dropped")],
    ),
    "registered and dropped in one step": (
        case(2, [(1, register(2, UNIT)), (1, DROP)], [(1, at("a", 0, 0, 0))]),
        [],
    ),
    "a pause is silent, the resume tells the difference": (
        case(
            4,
            [(1, register(2, UNIT)), (2, PAUSE), (4, RESUME)],
            [(1, at("a", 0, 0, 0)), (1, at("c", 0, 0, 0)), (2, at("a", 5, 5, 1)), (3, at("b", 0, 0, 2))],
        ),
        [(1, "+", "a", ""), (1, "+", "c", ""), (4, "-", "a", "left"), (4, "+", "b", "")],
    ),
    "dropped while paused tells what was held": (
        case(
            4,
            [(1, register(2, UNIT)), (2, PAUSE), (4, DROP)],
            [(1, at("a", 0, 0, 0)), (2, at("a", 5, 5, 1)), (3, at("b", 0, 0, 2))],
        ),
        [(1, "+", "a", ""), (4, "-", "a", "dropped")],
    ),
    "time alone makes a condition true and untrue": (
        case(
            9,
            [
                (
                    1,
                    register(
                        2,
                        UNIT,
                        [
                            "and",
                            [
                                ["cmp", "<", ["col", "ts"], ["now"]],
                                ["cmp", ">", ["col", "ts"], ["arith", "-", ["now"], ["dur", 3_000_000]]],
                            ],
                        ],
                    ),
                )
            ],
            [(2, at("a", 0, 0, 1))],
        ),
        [(3, "+", "a", ""), (5, "-", "a", "left")],
    ),
}
