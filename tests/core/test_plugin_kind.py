"""Query kinds that are not ours: plugged in by one class and one table entry, held to brute force."""

from __future__ import annotations

import doctest
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import memory
from support.cases import Case, Row
from support.examples import at, case, rect, register
from support.local import local_session
from support.strategies import cut
from support.typed import snapshot_spec

from core.slots import SPEC, Slot
from stqsh.client.results import Rows
from stqsh.core.contract import query_kind
from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, QueryKind
from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kinds import KINDS
from stqsh.core.output.partials import CandidateOffers
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.snapshots.select import nothing, part, whole


class FurthestKind(MergingKind):
    """The k objects that are furthest from a place: the first k of all slots, by (minus distance, key)."""

    name = "furthest"

    def build(self, batch, output):
        return FurthestLogic(self, batch, output)

    def select_members(self, selection):
        objects = selection.satisfying(selection.everything())
        nearness = np.sort(self.rank(selection, objects))
        k = selection.spec.region.k
        return objects if len(objects) <= k else objects[self.rank(selection, objects) <= nearness[k - 1]]

    def rank(self, selection, objects):
        return -selection.distances(objects)

    def explain(self, given: ExplainInput) -> KindExplanation:
        return KindExplanation("none", "scan of everything", 1.0, (*given.operators, "k furthest"))


class FurthestLogic(MergingLogic):
    """Offers the k furthest of the slot's own objects; keeps in arrays which objects it has offered."""

    def on_events(self, begun):
        first = self.batch.timing.first
        for step in sorted({first, *self.batch.objects.events.step.tolist()}):
            living = (self.queries.mode == ACTIVE) & (self.queries.until > step)
            for position in np.flatnonzero(living):
                self.offer(position, step, again=step == first and position in begun)

    def offer(self, position, step, again):
        sent, id_, objects = self.sent, self.queries.id[position], self.batch.objects
        _, before = sent.pop_queries([id_])
        versions, x, y = objects.at(step)
        now, rank = self.furthest(position, x, y)
        sent.add(np.full(len(now), id_), now)
        old = objects.versions_after(now, np.full(len(now), step - 1))
        new = again | ~np.isin(now, before) | (old != versions[now])
        gone = np.setdiff1d(before, now)
        why, show = objects.reasons(versions[gone], gone, np.full(len(gone), step))
        columns = [
            [np.ones(new.sum()), np.zeros(new.sum()), versions[now[new]], rank[new]],
            [np.full(len(gone), -1), np.where(why == LEFT, OVERTAKEN, why), show, np.full(len(gone), np.nan)],
        ]
        op, why, show, rank = (np.concatenate(both) for both in zip(*columns, strict=True))
        whole = np.full(len(op), step), np.full(len(op), id_), op, why, show.astype(np.int64), rank
        self.partials.offer(CandidateOffers(*whole))

    def furthest(self, position, x, y):
        there = np.flatnonzero(~np.isnan(x)).astype(np.int32)
        rank = -np.hypot(x[there] - self.queries.x1[position], y[there] - self.queries.y1[position])
        keys = self.batch.objects.table.show_keys(there).to_pylist()
        order = sorted(range(len(there)), key=lambda i: (rank[i], keys[i]))[: self.queries.k[position]]
        order = np.sort(np.array(order, np.int64))
        return there[order], rank[order]

    def retire(self, positions, steps, why):
        self.sent.pop_queries(self.queries.id[positions])
        super().retire(positions, steps, why)

    @property
    def sent(self):
        return SentAnswers(self.batch.state, self.prefix)


def example_kind() -> QueryKind:
    """The kind in the contract's own docstring."""
    scope: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(query_kind.__doc__ or ""):
        exec(example.source, scope)
    kind: QueryKind = scope["DiamondKind"]()
    return kind


@pytest.fixture(autouse=True)
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (FurthestKind(), example_kind()):
        monkeypatch.setitem(KINDS, kind.name, kind)


K, BOX = 3, (1.0, 1.0, 5.0, 4.0)
REGIONS = {"furthest": {"type": "nearest", "k": K, "x": 0.0, "y": 0.0}, "diamond": rect(*BOX)}


def members(kind: str, rows: list[Row]) -> set[str]:
    """The answer by brute force, of the rows that are present."""
    there = [row for row in rows if row["x"] is not None]
    if kind == "furthest":
        ranked = sorted(there, key=lambda row: (-np.hypot(row["x"], row["y"]), row["oid"]))
        return {row["oid"] for row in ranked[:K]}
    wide, high = (BOX[2] - BOX[0]) / 2, (BOX[3] - BOX[1]) / 2
    x, y = BOX[0] + wide, BOX[1] + high
    return {row["oid"] for row in there if abs(row["x"] - x) / wide + abs(row["y"] - y) / high <= 1}


def asked(name: str, seed: int, changes: dict[str, Any]) -> Case:
    """One query: paused in steps 6 to 8, dropped in step 13; of events each key comes once."""
    draw, event = random.Random(seed), "keep_us" in changes
    places = [*((x, y) for x in range(7) for y in range(6)), *([] if event else [(None, None)])]
    names = iter([f"e{i:02}" for i in range(99)])
    records = [
        (s, at(next(names) if event else draw.choice("abcdefgh"), *draw.choice(places), s - 1))
        for s in range(1, 13)
        for _ in "123"
    ]
    query = register(7, REGIONS[name])
    query["query"]["kind"] = name
    commands = [
        (2, query),
        *((s, {"op": op, "id": 7}) for s, op in ((6, "pause"), (9, "resume"), (13, "drop"))),
    ]
    return case(13, commands, records, **changes)


def present(asked: Case, step: int) -> list[Row]:
    """The last record of each key after a step, without the events that are older than KEEP."""
    keep = asked.spec["keep_us"]
    stored = {row["oid"]: row for n, row in asked.records if n <= step}
    now = asked.clock.at(step)
    return [row for row in stored.values() if keep is None or now - row["ts"] <= keep]


STREAMS: dict[str, dict[str, Any]] = {
    "moving": {},
    "event": {"kind": "event", "keep_us": 4_000_000, "bounds": [0, 0, 7, 6]},
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 5, None])
def test_answers_are_those_of_brute_force_after_each_step(
    kind: str, stream: str, slots: int, size: int | None
) -> None:
    case = asked(kind, slots, STREAMS[stream])
    updates = memory.run(case, slots, cut(case, size), restarts={1, 3}).updates
    answer: set[str] = set()
    for step in range(2, 13):
        for update in (u for u in updates if u.step == step):
            (answer.add if update.op == "+" else answer.remove)(update.key)
        if not 6 <= step < 9:
            assert answer == members(kind, present(case, step)), step
    assert not [u for u in updates if 6 <= u.step < 9]
    assert {u.key for u in updates if u.why == "dropped"} == answer


@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize("count", [1, 3])
def test_snapshots_are_those_of_brute_force(kind: str, count: int) -> None:
    draw = random.Random(count)
    rows = [(f"o{i:02}", float(draw.randrange(7)), float(draw.randrange(6)), 1) for i in range(30)]
    states = []
    for number in range(count):
        slot = Slot()
        slot.batch(1, 1, [(1, *row) for row in rows[number::count]])
        states.append(slot.state)
    spec = {
        "stream_id": 1,
        "kind": kind,
        "region": REGIONS[kind],
        "condition": None,
        "select": [["oid", ["col", "oid"]]],
    }
    expected = members(kind, [dict(zip(("oid", "x", "y"), row, strict=False)) for row in rows])

    def answer(json: dict[str, Any]) -> list[Any]:
        spec = snapshot_spec(json)
        shares = [part(state, spec) for state in states]
        [column] = whole([share for share in shares if share] or [nothing(SPEC, spec)], spec).columns
        return column.to_pylist()

    assert answer(spec) == sorted(expected) if kind == "diamond" else set(answer(spec)) == expected
    assert answer(spec | {"aggregate": "count", "select": []}) == [len(expected)]


@pytest.fixture
def session(tmp_path) -> Iterator[Any]:
    lines = [f"o{i},{i % 7},{i % 6},2008-02-02T15:00:{i:02d}Z" for i in range(42)]
    (tmp_path / "taxis.csv").write_text("\n".join(["oid,x,y,ts", *lines, ""]))
    with local_session(tmp_path, slots=2, published=True) as session:
        yield session


def test_a_session_registers_it_and_explains_it(session, tmp_path) -> None:
    script = f"""
    CREATE MOVING STREAM taxis (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)
      KEY oid LOCATION (x, y) TIME ts FROM FILE '{tmp_path}/taxis.csv' PLANAR;
    REGISTER QUERY far WITH (kind => 'furthest') AS SELECT oid FROM taxis NEAREST 3 TO (0, 0);
    REGISTER QUERY gem WITH (kind => 'diamond') AS SELECT oid FROM taxis INSIDE (1, 1, 5, 4);
    RUN;
    EXPLAIN ANALYZE far;
    EXPLAIN gem;
    """
    far, gem = (
        dict(rows.rows)
        for rows in session.outcomes(script)
        if isinstance(rows, Rows) and rows.columns == ("item", "value")
    )
    assert (far["kind"], far["index"], far["slots"][:6]) == ("continuous furthest", "none", "2 of 2")
    assert far["plan"] == "box filter -> k furthest"
    assert gem["index"] == "none: every record is looked at"
    assert far["candidates per record"] == gem["candidates per record"] == "1"
