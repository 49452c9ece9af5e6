"""A process that holds a slot while objects and queries come and go: what it says of its memory.

`python -m support.memory_churn FOLDER`: lines as of `support.memory_growth`, whose stages are numbers of
batches. What is there at once stays the same, so memory should, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stqsh.spec.aggregate import AggregateSpec, Measure
from support.memory_growth import SECOND, STREAM, Slot, region

#: So many objects and queries come with each batch, and go three batches later.
OBJECTS, QUERIES, LAST = 8_000, 300, 3
STAYING = 1_000
STAGES = (40, 80)

_COUNTED = msgspec.to_builtins(AggregateSpec(measures=(Measure("count"),)))
_DRAW = np.random.default_rng(1)


def _query(number: int) -> dict[str, Any]:
    """A command that registers a query somewhere: a range, the nearest, or a count."""
    x, y = _DRAW.uniform(0, 950, 2).tolist()
    command = region(number, 1000)
    query = command["query"] | {"region": {"type": "rect", "x1": x, "y1": y, "x2": x + 20, "y2": y + 20}}
    if number % 3 == 1:
        distance = ["far", ["distance"]]
        place = {"type": "nearest", "k": 5, "x": x, "y": y}
        query |= {"kind": "nearest", "region": place, "select": [*query["select"], distance]}
    elif number % 3 == 2:
        query |= {"kind": "aggregate", "aggregates": _COUNTED}
    return command | {"query": query}


def main(folder: Path) -> None:
    """Let objects and queries come and go."""
    slot = Slot(folder, msgspec.structs.replace(STREAM, retain="all", report_every_us=LAST * SECOND))
    numbers = iter(range(1, sys.maxsize))
    slot.batch(commands=[_query(next(numbers)) for _ in range(STAYING)])
    passing: list[list[int]] = []
    for batch in range(1, STAGES[-1] + 1):
        coming = [_query(next(numbers)) for _ in range(QUERIES)]
        passing.append([command["query"]["id"] for command in coming])
        going = passing.pop(0) if len(passing) > LAST else []
        slot.batch(commands=[*coming, *({"op": "drop", "id": number} for number in going)])
        slot.report(batch * OBJECTS, OBJECTS)
        if batch in STAGES:
            slot.tell(str(batch))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
