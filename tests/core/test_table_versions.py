"""Tables of a slot's state carry a version: older states are upgraded, newer ones refused, none misread."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import orjson
import pytest

import stqsh.core
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable, TableVersionError

LAYOUTS = Path(__file__).with_name("table_layouts.json")
"""The arrays and the version of each table, as sessions hold them."""


class Visits(StateTable):
    """The first version of a table."""

    query = ArraySpec(np.int64)
    seconds = ArraySpec(np.int64)


class VisitsInMilliseconds(StateTable):
    """The second version: the times have another unit, and a column is new."""

    query = ArraySpec(np.int64)
    seconds = ArraySpec(np.int64)
    count = ArraySpec(np.int32)
    version: ClassVar[int] = 2

    def upgrade(self, version: int) -> None:
        if version != 1:
            super().upgrade(version)
        self.array("seconds")[:] *= 1000


class VisitsOfTheFuture(Visits):
    """A version to which nothing leads."""

    version: ClassVar[int] = 3


def written() -> SlotState:
    state = SlotState.fresh(0)
    Visits(state, "s1/visits").append(query=[7, 8], seconds=[1, 2])
    return state


def test_an_older_table_is_upgraded_once_and_new_columns_are_zero() -> None:
    state = written()
    for _ in range(2):
        visits = VisitsInMilliseconds(state, "s1/visits")
        assert visits.array("seconds").tolist() == [1000, 2000]
        assert visits.array("count").tolist() == [0, 0]


def test_a_new_table_is_not_upgraded() -> None:
    state = SlotState.fresh(0)
    VisitsInMilliseconds(state, "s1/visits").append(query=[7], seconds=[5])
    assert VisitsInMilliseconds(state, "s1/visits").array("seconds").tolist() == [5]


@pytest.mark.parametrize(("first", "then"), [(VisitsInMilliseconds, Visits), (Visits, VisitsOfTheFuture)])
def test_a_table_without_an_upgrade_is_refused(first: type[StateTable], then: type[StateTable]) -> None:
    state = SlotState.fresh(0)
    first(state, "s1/visits").append(query=[7])
    with pytest.raises(TableVersionError):
        then(state, "s1/visits")


def test_a_table_that_is_released_may_come_back_in_another_version() -> None:
    state = SlotState.fresh(0)
    VisitsInMilliseconds(state, "s1/visits").append(query=[7])
    state.release("s1/")
    Visits(state, "s1/visits")


def layouts() -> dict[str, dict[str, object]]:
    """Return the version and the arrays of each table of the core."""
    for module in pkgutil.walk_packages(stqsh.core.__path__, "stqsh.core."):
        importlib.import_module(module.name)
    found: dict[str, dict[str, object]] = {}
    classes = list(StateTable.__subclasses__())
    while classes:
        table = classes.pop()
        classes += table.__subclasses__()
        if table.__module__.startswith("stqsh."):
            arrays = {
                name: [np.dtype(spec.dtype).str, spec.width, spec.refers_to, spec.derived_from]
                for name, spec in table.specs.items()
            }
            found[table.__name__] = {"version": table.version, "arrays": arrays}
    return found


def test_tables_change_with_their_versions_only() -> None:
    known = orjson.loads(LAYOUTS.read_bytes())
    now = layouts()
    for name, layout in known.items():
        assert name in now, f"the table {name} is gone: sessions hold it"
        if now[name]["version"] == layout["version"]:
            kept = {array: now[name]["arrays"].get(array) for array in layout["arrays"]}  # type: ignore[attr-defined]
            assert kept == layout["arrays"], (
                f"{name} reads arrays of older sessions differently: raise its version, and define `upgrade`"
            )
    assert now == known, (
        f"write down the new layout: {orjson.dumps(now, option=orjson.OPT_SORT_KEYS).decode()}"
    )
