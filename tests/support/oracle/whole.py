"""Whole cases: the steps that matter, all updates, what comes too late or twice."""

from __future__ import annotations

from typing import Any

from support.cases import Case, Clock, Row, Spec, by_step
from support.oracle.expressions import value
from support.oracle.fold import Oracle, Room, Update, size_of, world_of


def nows(e: Any) -> list[Any]:
    """All comparisons with NOW inside an expression."""
    if not isinstance(e, list):
        return []
    with_now = e[:1] == ["cmp"] and (e[3] == ["now"] or (e[3][0] == "arith" and e[3][2] == ["now"]))
    return ([e] if with_now else []) + [found for part in e for found in nows(part)]


def reads_now(e: Any) -> bool:
    """Whether an expression depends on NOW."""
    return isinstance(e, list) and (e == ["now"] or any(map(reads_now, e)))


def changes_always(e: Any) -> bool:
    """Whether an expression reads NOW other than in comparisons with it."""
    if not isinstance(e, list):
        return False
    return e == ["now"] or any(map(changes_always, e[2:3] if nows([e])[:1] == [e] else e))


def moments(case: Case) -> list[int]:
    """The steps at which anything can happen: records, commands, and instants that matter by themselves."""
    if any(changes_always([query["condition"], *_computed(query)]) for query in case.queries):
        return list(range(1, case.steps + 1))
    clock, steps = case.clock, {1, case.steps, *(s for s, _ in case.records), *(s for s, _ in case.commands)}
    steps |= {clock.step_of(t) + d for t in instants_of(case) for d in (-1, 0, 1, 2)}
    for dwell in {query["options"].get("dwell_us", 0) for query in case.queries}:
        steps |= {clock.step_of(clock.at(s) + dwell) + d for s in list(steps) for d in (0, 1)}
    steps |= _refreshes(case, steps)
    return sorted(s for s in steps if 1 <= s <= case.steps)


def _refreshes(case: Case, steps: set[int]) -> set[int]:
    """The steps of the refreshes that follow a change, by any of these steps or by time."""
    clock, found = case.clock, set()
    instants = {clock.at(n + d) for n in steps for d in (0, 1)} | instants_of(case)
    for form in (query.get("aggregates") or query.get("first") or {} for query in case.queries):
        every, window = form.get("sync_us"), form.get("window_us")
        if every is None:
            continue
        turning = set(instants)
        if window is not None:
            turning |= {row[case.spec["time"]] + later for _, row in case.records for later in (0, window)}
        for t in turning:
            found |= {clock.step_of((t // every + k) * every) for k in (-1, 0, 1, 2)}
    return found


def instants_of(case: Case) -> set[int]:
    """When records grow silent, comparisons with NOW turn, and FOR has passed."""
    spec, out, world = case.spec, set(), world_of(case)
    times = [name for name, kind in spec["columns"] if kind == "TIMESTAMP"]
    turning = [e for query in case.queries for e in nows(query["condition"])]
    computing = [e for query in case.queries for e in nows(_computed(query))]
    for _, row in case.records:
        out.add(row[spec["time"]] + (spec["report_every_us"] or spec["keep_us"] or 0))
        for _, _, left, right in turning:
            when = value(left, row, 0, world)
            out.add(0 if when is None else when - value(right, row, 0, world))
        for _, _, _, right in computing:
            out |= {row[name] - value(right, row, 0, world) for name in times if row[name] is not None}
    for step, command in case.commands:
        if command["op"] == "register":
            out.add(case.clock.at(step) + (command["query"]["for_us"] or 0))
    return out


def _computed(query: Spec) -> list[Any]:
    """What a query computes of its members."""
    return [part for name in ("aggregates", "first") for part in (query.get(name) or {}).values()]


def run(case: Case, every_step: bool = False, closing: int = 0) -> list[Update]:
    """All updates of a case in log order; `every_step` visits the empty steps too (the same, but slower).

    `closing` is the step after the end, if there is one.
    """
    oracle = Oracle.of(case)
    oracle.closing = closing
    last = max(case.steps, closing)
    steps = range(1, last + 1) if every_step else sorted({*moments(case), last})
    records, commands = by_step(case.records), by_step(case.commands)
    return [u for n in steps for u in oracle.step(n, commands.get(n, []), records.get(n, []))]


def after(case: Case, step: int) -> Oracle:
    """The state after a step, for looks at it."""
    oracle = Oracle.of(case)
    for n, records in sorted(by_step([r for r in case.records if r[0] <= step]).items()):
        oracle.take(n, records)
    return oracle


def stale(case: Case) -> int:
    """How many records of a case come too late to count."""
    return after(case, case.steps).stale


def accepted(spec: Spec, clock: Clock, records: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """The records without an event stream's duplicates and those without a location.

    A duplicate has the key of an accepted one that is still kept at the start of the record's tick.
    """
    return sorted_out(spec, clock, records)[0]


def sorted_out(
    spec: Spec, clock: Clock, records: list[tuple[int, Row]], *, live: bool = False
) -> tuple[list[tuple[int, Row]], list[tuple[int, Row]]]:
    """The accepted records, and the duplicates; `live`: these take room, too."""
    if spec["kind"] != "event":
        return records, []
    kept: dict[Any, int] = {}
    out, again, room, now = [], [], Room(spec.get("keep_bytes")), None
    for step, row in records:
        if row[spec["x"]] is None or row[spec["y"]] is None:
            continue
        if now not in (None, step):
            room.let_go(clock.base_tick + now - 1)
        key, begins, now = row[spec["key"]], clock.at(step), step
        is_kept = key in kept and (spec["keep_us"] is None or kept[key] >= begins - spec["keep_us"])
        is_new = not is_kept or (room.floor is not None and kept[key] < room.floor * clock.tick_us)
        if is_new or live:
            room.take(row[spec["time"]] // clock.tick_us, size_of(row, spec))
        if is_new:
            kept[key] = max(kept.get(key, row[spec["time"]]), row[spec["time"]])
            kept[key] = begins if spec["keep_us"] == 0 else kept[key]
            out.append((step, row))
        else:
            again.append((step, row))
    return out, again
