"""A query kind that is not ours: the k furthest objects, plugged in by one module and one table entry."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support import memory
from support.cases import Case
from support.examples import at, case, register
from support.strategies import cut

from stqsh.core.contract.query_kind import MergingKind, StreamBatch
from stqsh.core.kernels.events.updates import LEFT, reasons
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kinds import KINDS
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput, first_k
from stqsh.core.output.partials import DROP, REGISTER, CandidateOffers, Partials
from stqsh.core.state.slot_state import SlotState


class Furthest:
    """Each slot offers its own k furthest; Aggregate takes the first k of all, by (minus distance, key)."""

    def step(self, batch: StreamBatch, report: BatchOutput) -> None:
        queries = batch.state.header.setdefault("furthest", {})
        partials = Partials(batch, "furthest")
        ids = {int(id_) for id_ in queries}
        for id_ in sorted(ids if batch.commands.stream_dropped else ids & batch.commands.dropped):
            partials.mark(np.array([id_]), batch.timing.first, DROP, np.zeros(1), np.zeros(1, np.bool_))
            del queries[str(id_)]
        new = set()
        for spec in batch.commands.registered:
            queries[str(spec["id"])] = spec["region"]
            k, no = np.array([spec["region"]["k"]]), np.zeros(1, np.bool_)
            partials.mark(np.array([spec["id"]]), batch.timing.first, REGISTER, k, no)
            new.add(spec["id"])
        for step in sorted({batch.timing.first, *batch.objects.events.step.tolist()} if queries else ()):
            for id_, region in queries.items():
                begins = step == batch.timing.first and int(id_) in new
                before = {} if begins else first(batch, region, step - 1)
                partials.offer(changes(batch, int(id_), step, (before, first(batch, region, step))))
        report.chunks += partials.chunks()

    def count(self, state: SlotState, stream: int) -> int:
        return len(state.header.get("furthest", {}))

    def merge(self, batch: MergeInput) -> MergedUpdates:
        return first_k(batch)


Top = dict[int, tuple[int, float]]


def first(batch: StreamBatch, region: dict[str, Any], step: int) -> Top:
    """The k furthest objects of the slot after a step: version and rank of each."""
    versions, x, y = batch.objects.at(step)
    there = np.flatnonzero(~np.isnan(x)).astype(np.int32)
    rank = -np.hypot(x[there] - region["x"], y[there] - region["y"])
    keys = batch.objects.table.show_keys(there).to_pylist()
    order = sorted(range(len(there)), key=lambda i: (rank[i], keys[i]))[: region["k"]]
    return {int(there[i]): (int(versions[there[i]]), float(rank[i])) for i in order}


def changes(batch: StreamBatch, query: int, step: int, tops: tuple[Top, Top]) -> CandidateOffers:
    """Who is a candidate now, or has another record; who is none any more, and why."""
    before, now = tops
    rows = [(1, 0, version, rank) for obj, (version, rank) in now.items() if before.get(obj) != now[obj]]
    lost = np.array(sorted(before.keys() - now.keys()), np.int32)
    versions, steps = batch.objects.at(step).versions[lost], np.full(len(lost), step)
    why, show = reasons(versions, lost, steps, batch.objects.sources, batch.timing)
    rows += [(-1, OVERTAKEN if w == LEFT else w, s, np.nan) for w, s in zip(why, show, strict=True)]
    op, why, show, rank = (np.array(column) for column in zip(*rows, strict=True)) if rows else [why] * 4
    return CandidateOffers(np.full(len(rows), step), np.full(len(rows), query), op, why, show, rank)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(Furthest(), MergingKind)
    monkeypatch.setitem(KINDS, "furthest", Furthest())


def furthest(asked: Case, k: int, step: int) -> set[str]:
    """The same by brute force, around (0, 0)."""
    stored = {row["oid"]: row for n, row in asked.records if n <= step}
    there = [row for row in stored.values() if row["x"] is not None]
    ranked = sorted(there, key=lambda row: (-np.hypot(row["x"], row["y"]), row["oid"]))
    return {row["oid"] for row in ranked[:k]}


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("size", [1, 7, None])
def test_a_kind_that_is_plugged_in_answers_like_brute_force(slots: int, size: int | None) -> None:
    draw, k = random.Random(slots), 3
    places = [(None, None), *((x, y) for x in range(6) for y in range(6))]
    records = [(s, at(draw.choice("abcdefgh"), *draw.choice(places), s)) for s in range(1, 13) for _ in "123"]
    query = register(7, {"type": "nearest", "k": k, "x": 0.0, "y": 0.0})
    query["query"]["kind"] = "furthest"
    asked = case(13, [(2, query), (13, {"op": "drop", "id": 7})], records)
    updates = memory.run(asked, slots, cut(asked, size)).updates
    answer: set[str] = set()
    for step in range(2, 13):
        for update in (u for u in updates if u.step == step):
            (answer.add if update.op == "+" else answer.remove)(update.key)
        assert answer == furthest(asked, k, step)
    assert {u.key for u in updates if u.why == "dropped"} == answer
