"""Routing tables, when they change, and what goes wrong in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.texts.tokenizer import tokens
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.cells import Cells
from stqsh.routing.load import METRICS, Load
from stqsh.routing.strategies import STRATEGIES, lay
from stqsh.routing.table import HASHED, TEXT, RoutingTable
from stqsh.routing.text_leaves import CHILDREN, TextLeaves
from support.cases import Case, Command, Spec
from support.deaths import Death, deaths
from support.strategies.conditions import ASKED, contained
from support.strategies.streams import TEXTS
from support.strategies.whole import chosen, cuts, in_slices, restarts, slots

_ALL_OVER = {"type": "rect", "x1": -170.0, "y1": -80.0, "x2": 170.0, "y2": 80.0}
BOUNDS = [(-1.0, -1.0, 1.0, 1.0), (0.0, 0.0, 4.0, 2.0), (-180.0, -90.0, 180.0, 90.0)]


@dataclass(frozen=True)
class Routing:
    """How a case is run: cut into batches, over slots, under routings that change.

    Attributes:
        size: how many eventful steps a batch has, None for all of them.
        slots: how many slots there are at first.
        routes: by batch, the routing that holds from it on.
        restarts: the batches before which all of a replay restarts.
        deaths: by batch, where it dies.
        is_endless: whether a replay is of a generator without an end.
        by_slot: whether batches that bring no queries are read by slot, those among them in which a routing
            begins; none is otherwise.
        cores: into how many slices a stream's part of another batch is cut.
        initial: the routing before all of these, of a replay of events with an end; None for the usual one.
        indexes: the batches before which an index is chosen, and which.
    """

    size: int | None
    slots: int
    routes: dict[int, RoutingTable]
    restarts: set[int]
    deaths: dict[int, Death]
    is_endless: bool
    by_slot: bool
    cores: int = 2
    initial: RoutingTable | None = None
    indexes: dict[int, str | int] = field(default_factory=dict)

    @property
    def tuning(self) -> EngineTuning:
        """The tunables of the engine."""
        if self.by_slot:
            return replace(TUNING, by_slot_routed=self.slots)
        return in_slices(self.cores)


@st.composite
def tables(draw: st.DrawFn, sides: Sequence[int] = (1, 2, 4, 8)) -> RoutingTable:
    """Arbitrary tables, not only those that strategies make."""
    side = draw(st.sampled_from(sides))
    count = draw(st.integers(1, 9))
    leaves = draw(st.integers(1, 12))
    leaf = draw(st.lists(st.integers(0, leaves - 1), min_size=side * side, max_size=side * side))
    slot = draw(st.lists(st.integers(HASHED, count - 1), min_size=leaves, max_size=leaves))
    if draw(st.integers(0, 3)) == 0:
        slot = [HASHED] * leaves
    bounds = draw(st.sampled_from(BOUNDS))
    cells = np.array(leaf, np.int32).reshape(side, side)
    return RoutingTable("grid", Cells(bounds, side), cells, np.array(slot, np.int16), count)


@st.composite
def laid_tables(draw: st.DrawFn) -> RoutingTable:
    """Tables of a strategy by drawn settings, for drawn records and queries, and perhaps adjusted."""
    cells = Cells(draw(st.sampled_from(BOUNDS)), draw(st.sampled_from([1, 2, 4, 16])))
    chance = np.random.default_rng(draw(st.integers(0, 9)))
    x1, y1, x2, y2 = cells.bounds
    x, y = chance.uniform((x1, y1), (x2, y2), (draw(st.integers(0, 40)), 2)).T
    corners = np.sort(chance.uniform((x1, y1), (x2, y2), (2, draw(st.integers(0, 9)), 2)), axis=0)
    metric = METRICS[draw(st.sampled_from(list(METRICS)))]
    load = replace(Load.of(cells, x, y, np.concatenate(list(corners), axis=1)), weights=metric)
    strategy, slots = draw(st.sampled_from(list(STRATEGIES))), draw(st.integers(1, 9))
    table = lay(strategy, load, slots, draw(st.integers(1, 64)))
    fitting = [one for one in ADJUSTERS.values() if strategy in one.fits]
    if not fitting:
        return table
    changed = replace(load, records=np.array(draw(st.permutations(load.records.tolist()))))
    return draw(st.sampled_from(fitting)).propose(table, changed, 1.05) or table


WORDS = sorted(set(tokens(pa.array([*ASKED, *TEXTS]))[1].to_pylist()))
"""The words of queries and of records."""


@st.composite
def _kept_terms(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """The terms that a leaf split by texts keeps, most of them or few, and the lists that each is on."""
    some = st.lists(st.sampled_from(WORDS), unique=True)
    words = WORDS if draw(st.integers(0, 2)) else draw(some)
    lists = st.integers(0, 7).map(lambda bits: bits << 1) | st.sampled_from([2, 4, 8])
    on = draw(st.lists(lists, min_size=len(words), max_size=len(words)))
    term = hash_keys(pa.array(words, pa.string()))
    order = np.argsort(term)
    return term[order], np.array(on, np.uint8)[order]


@st.composite
def split_tables(draw: st.DrawFn) -> RoutingTable:
    """Arbitrary tables of which some leaves, or all, are split by texts."""
    table = draw(tables(sides=[1, 1, 2, 4]))
    numbers = st.integers(0, len(table.slot) - 1)
    split = list(range(len(table.slot)))
    if draw(st.booleans()):
        split = draw(st.lists(numbers, min_size=1, max_size=3, unique=True))
    texts = TextLeaves.of([draw(_kept_terms()) for _ in split])
    count = CHILDREN * len(split)
    children = draw(st.lists(st.integers(HASHED, table.slots - 1), min_size=count, max_size=count))
    if draw(st.integers(0, 3)):  # each child on a slot of its own
        children = [number % table.slots for number in range(count)]
    slot = np.append(table.slot, np.array(children, np.int16))
    slot[split] = TEXT - np.arange(len(split))
    return replace(table, slot=slot, texts=texts)


@st.composite
def worded(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """Cases of streams with texts, of which most queries ask for words alone, and all over the plane.

    Otherwise few records would satisfy any query.
    """
    case = draw(cases.filter(lambda case: case.spec["text"] is not None))
    return replace(case, commands=[(step, _asking(draw, case.spec, one)) for step, one in case.commands])


def _asking(draw: st.DrawFn, spec: Spec, command: Command) -> Command:
    """The command, perhaps with a query that asks for words alone."""
    query = command.get("query")
    if query is None or query["kind"] != "range" or query["join"] or not draw(st.integers(0, 3)):
        return command
    query = query | {"condition": draw(contained(["col", spec["text"]]))}
    if query["region"]["type"] in ("rect", "polygon", "all"):  # others may show distances
        query["region"] = _ALL_OVER
    return command | {"query": query}


def routings(
    changes: st.SearchStrategy[dict[int, RoutingTable]],
    slots: st.SearchStrategy[int] = slots,
    initial: st.SearchStrategy[RoutingTable | None] | None = None,
) -> st.SearchStrategy[Routing]:
    """Runs whose routing changes so."""
    return st.builds(
        Routing,
        cuts,
        slots,
        changes,
        restarts,
        st.dictionaries(st.integers(0, 20), deaths, max_size=4),
        st.booleans(),
        st.booleans(),
        st.integers(1, 5),
        st.none() if initial is None else initial,
        chosen,
    )


_any_table = st.one_of(tables(), laid_tables())
changing = routings(st.dictionaries(st.integers(0, 8), _any_table, max_size=4))
early = routings(st.dictionaries(st.integers(0, 3), _any_table, min_size=1, max_size=3))
"""Runs whose routing changes within the first batches, and at least once."""

splitting = routings(
    st.dictionaries(st.integers(0, 5), split_tables(), min_size=1, max_size=3),
    st.sampled_from([1, 2, 3, 7, 7]),
    split_tables(),
)
"""Runs whose routing changes to tables that split leaves by texts, and mostly begins with one."""
