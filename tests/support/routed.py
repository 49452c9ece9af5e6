"""Run a case under routings that change, as a replay and as a live stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import NamedTuple
from unittest import mock

from hypothesis import strategies as st

from stqsh.engine.ingest import stream_routing
from stqsh.routing.table import RoutingTable
from stqsh.sources.replay_store.manifest import Manifest
from stqsh.sources.replay_store.spatial_extent import initial_table
from stqsh.spec.log import StreamRouted
from stqsh.spec.stream import GeneratorSourceSpec, StreamSpec
from stqsh.storage.stream_routes import append_route
from support.cases import Case
from support.live_memory import as_live, live_engine
from support.memory import MemoryEngine, memory_engine
from support.strategies import cut
from support.strategies.routing import Routing


class Routed(NamedTuple):
    """A run that is done.

    Attributes:
        engine: what ran.
        sent: what came in, duplicates among it.
        counted: what counts of that.
    """

    engine: MemoryEngine
    sent: Case
    counted: Case


class Way(NamedTuple):
    """A way for records to come in.

    Attributes:
        run: runs a case and yields the run.
        events: makes cases of events what such a stream has.
    """

    run: Callable[[Case, Routing], AbstractContextManager[Routed]]
    events: Callable[[st.SearchStrategy[Case]], st.SearchStrategy[Case]]


def _change(engine: MemoryEngine, case: Case, routing: Routing, batch: int) -> None:
    """Let the routing and the index that are drawn for a batch hold from it on."""
    if (index := routing.indexes.get(batch)) is not None:
        engine.choose(index)
    if (table := routing.routes.get(batch)) is not None:
        append_route(engine.control, StreamRouted(case.spec["id"], strategy=table.strategy), table)


@contextmanager
def _begun(initial: RoutingTable | None) -> Iterator[None]:
    """Replays begin with another routing than the usual one."""

    def table(manifest: Manifest | None, stream: StreamSpec, slots: int) -> RoutingTable | None:
        usual = initial_table(manifest, stream, slots)
        return usual if usual is None or initial is None else initial.over(slots)

    with mock.patch.object(stream_routing, "initial_table", table):
        yield


@contextmanager
def _replayed(case: Case, routing: Routing) -> Iterator[Routed]:
    """Run a replay whose batches die as in `deaths`; before each batch in `restarts` all restarts.

    An endless one gets a dealer.
    """
    if routing.is_endless:
        case = replace(case, spec=case.spec | {"source": GeneratorSourceSpec("network")})
    initial = None if routing.is_endless or case.spec["kind"] != "event" else routing.initial
    with _begun(initial), memory_engine([case], routing.slots, tuning=routing.tuning) as engine:
        engine.deaths = routing.deaths
        for number, (first, last) in enumerate(cut(case, routing.size)):
            if number in routing.restarts:
                engine.restart(arena=number % 2 == 1)
            _change(engine, case, routing, number)
            engine.take(first, last)
        yield Routed(engine, case, case)


@contextmanager
def _inserted(case: Case, routing: Routing) -> Iterator[Routed]:
    """Run a live stream whose batches die as in `deaths`.

    It has a dealer from its first change of the routing on. Deaths fall on all that a change consists of: the
    batch in which slots send their objects, the first in which the dealer deals, those in which a copy by key
    begins and ends, and any other.
    """
    live = as_live(case, cut(case, routing.size))
    with live_engine(live.sent, routing.slots, routing.tuning) as engine:
        engine.deaths = routing.deaths
        for number, (first, last) in enumerate(live.batches):
            _change(engine, live.sent, routing, number)
            engine.take(first, last)
        yield Routed(engine, live.sent, live.counted)


def events(drawn: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Cases of event streams that have events."""
    return drawn.filter(lambda case: case.spec["kind"] == "event" and bool(case.records))


@st.composite
def _repeated(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A case of events some of which come again later, from elsewhere and with other content."""
    case = draw(events(cases))
    again = draw(st.lists(st.tuples(*[st.sampled_from(case.records)] * 2), max_size=6))
    later = [
        (max(first[0], other[0]), other[1] | {name: first[1][name] for name in ("oid", "ts")})
        for first, other in again
    ]
    return replace(case, records=sorted([*case.records, *later], key=lambda record: record[0]))


REPLAY = Way(_replayed, events)
LIVE = Way(_inserted, _repeated)
WAYS = {"replay": REPLAY, "live": LIVE}
