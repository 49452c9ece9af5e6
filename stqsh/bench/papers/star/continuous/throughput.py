"""Figures 7, 10 and 13c, d: records a second of continuous aggregates, and the memory of their indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.star.continuous.questions import ContinuousWorkload
from stqsh.bench.papers.star.continuous.timing import (
    Cost,
    Stream,
    alone_and_shared,
    match_costs,
    minute_of,
    upkeep_costs,
)
from stqsh.bench.papers.star.continuous.upkeep import MT, RECOMPUTING, RUNNING
from stqsh.bench.papers.star.figure_run import StarRun

CONSTRAINTS = (1, 2, 3, 4)
_CH, _ENDLESS = "CH(1,000)", "CH(inf)"
_OURS = ("forest", "rarest first")
PEERS = ("OpIndex", "RP-trees")
CONTENDERS: dict[str, tuple[str, str]] = {
    **{name: (name, RECOMPUTING.name) for name in (*PEERS, _CH, _ENDLESS, "FAST", *_OURS)},
    **{f"{name} + MT": (name, MT.name) for name in (_CH, _ENDLESS, *_OURS)},
    "rarest first + totals": ("rarest first", RUNNING.name),
}
"""The index and the upkeep of each."""

_MOST, _MOST_TERMS = 4096, 1024
_TOO_MANY = 4
"""A run that counts that much more often than wanted is left out."""

_COLUMNS = {
    "queries": "queries",
    "constraints": "constraints",
    "name": "way",
    "match_us": "match µs",
    "upkeep_us": "upkeep µs",
    "per_s": "records/s",
    "shared_match_us": "shared: match µs",
    "shared_upkeep_us": "upkeep µs",
    "shared_per_s": "records/s",
    "minute": "records a minute",
}
_PAPER = {"OpIndex": "2 to 3 x", "RP-trees": "about 1.5 x"}


@dataclass(frozen=True)
class MatchCosts:
    """What queries cost, alone and shared: matches by index, and upkeep by way; and records a minute."""

    match: tuple[dict[str, Cost], dict[str, Cost]]
    upkeep: tuple[dict[str, Cost] | None, dict[str, Cost]]
    minute: int

    def per_s(self, name: str, is_shared: bool) -> float | None:
        """Return the records a second of a contender; None if its upkeep was left out."""
        index, way = CONTENDERS[name]
        upkeep = self.upkeep[is_shared]
        return None if upkeep is None else 1e6 / (self.match[is_shared][index].micros + upkeep[way].micros)


@dataclass
class Bench:
    """Measures sets of queries, matches once for all groupings and aggregates."""

    run: StarRun
    stream: Stream

    def __post_init__(self) -> None:
        self.matched = cache(self._matched)
        self.measured = cache(self._measured)

    def _matched(self, workload: ContinuousWorkload, count: int) -> tuple[dict[str, Cost], dict[str, Cost]]:
        alone, shared = alone_and_shared(self.stream.draw(workload, count))
        return match_costs(self.stream, alone), match_costs(self.stream, shared)

    def _measured(self, workload: ContinuousWorkload, count: int, is_top: bool) -> MatchCosts:
        name = f"Q_{workload.kind}-{'TopK' if is_top else 'Count'}"
        self.run.say(f"{name}, {count:,} queries, {workload.constraints} constraints")
        match = self.matched(replace(workload, kind="C1"), count)
        alone, shared = alone_and_shared(self.stream.draw(workload, count))
        pairs, updates = self.stream.found(alone), self.run.scale.updates
        most = min(_MOST_TERMS if is_top else _MOST, len(self.stream.posts) // 40)
        minute = minute_of(pairs, updates, with_terms=is_top, most=most)
        kept = upkeep_costs(self.stream, shared, minute, is_top=is_top)
        if 40 * minute * pairs * (15 if is_top else 1) > _TOO_MANY * updates:
            return MatchCosts(match, (None, kept.costs), minute)
        own = upkeep_costs(self.stream, alone, minute, is_top=is_top)
        if not np.array_equal(own.digests, kept.digests):
            raise ValueError(f"{name}: shared results are other than those of each query")
        return MatchCosts(match, (own.costs, kept.costs), minute)


def bench_of(run: StarRun) -> Bench:
    """Return a bench over as many posts as a run takes in."""
    return Bench(run, Stream(run.posts.head(40 * _MOST)))


def constraints(run: StarRun) -> list[FigureResult]:
    """Figure 7: a part for each set of questions, and one for matches alone."""
    bench = bench_of(run)
    sets = [(kind, is_top) for is_top in (False, True) for kind in ("C1", "C2")]
    parts = [
        _part(bench, f"7{part}", kind, is_top) for part, (kind, is_top) in zip("abcd", sets, strict=True)
    ]
    return [*parts, _matches(bench)]


def _part(bench: Bench, number: str, kind: str, is_top: bool) -> FigureResult:
    rows, goals, charts = list[Row](), list[Goal](), list[Chart]()
    name = f"Q_{kind}-{'TopK' if is_top else 'Count'}"
    for count in bench.run.scale.queries:
        found = [bench.measured(ContinuousWorkload(kind, one), count, is_top) for one in CONSTRAINTS]
        for one, measured in zip(CONSTRAINTS, found, strict=True):
            rows += [{"queries": count, "constraints": one, **row} for row in _rows(measured)]
        goals += _goals(f"{name}, {count:,}", found)
        lines = [
            Line(f"{way}{', shared' * shared}", CONSTRAINTS, [one.per_s(way, shared) for one in found])
            for way in CONTENDERS
            for shared in (False, True)
            if way in (*PEERS, f"{_CH} + MT", f"{_ENDLESS} + MT", "rarest first")
        ]
        charts.append(Chart(f"{name}, {count:,} queries", "constraints", "records/s", lines, "y"))
    title = f"throughput of continuous queries against constraints, {name}"
    return FigureResult(number, title, _COLUMNS, rows, goals, [_NOTE], charts)


_NOTE = (
    "Processor time of a record on one core: matching and upkeep, timed one by one, as all indexes find the"
    " same pairs. All ways showed equal results, shared and not. So many records come a minute that a run is"
    " counted about as often with all sets of questions; where few come, upkeep is mostly refreshes. Goals:"
    " geometric mean over 1 to 4 constraints, least and most in brackets."
)


def _rows(measured: MatchCosts) -> Iterator[Row]:
    for name, (index, way) in CONTENDERS.items():
        row: dict[str, str | float | None] = {"name": name, "minute": measured.minute}
        for is_shared, prefix in ((False, ""), (True, "shared_")):
            upkeep = measured.upkeep[is_shared]
            row[f"{prefix}match_us"] = measured.match[is_shared][index].micros
            row[f"{prefix}upkeep_us"] = None if upkeep is None else upkeep[way].micros
            row[f"{prefix}per_s"] = measured.per_s(name, is_shared)
        yield row


def _goals(what: str, found: Sequence[MatchCosts]) -> Iterator[Goal]:
    """Yield the goals of a number of queries."""
    mt = f"{_CH} + MT"
    for peer, wanted in (("OpIndex", 2.0), ("RP-trees", 1.5)):
        yield _mean(f"{what}: {mt} over {peer}", _PAPER[peer], wanted, _ratios(found, [mt], [peer], False))
    yield _mean(f"{what}: {mt} over {_CH}", "1.1 to 1.2 x", 1.1, _ratios(found, [mt], [_CH], False))
    ours = [name for name in CONTENDERS if name.startswith("rarest first")]
    others = [name for name, (index, _) in CONTENDERS.items() if index not in _OURS]
    for is_shared in (False, True):
        goal = f"{what}{', shared' * is_shared}: rarest first over the best other"
        yield _mean(goal, "-", 1.0, _ratios(found, ours, others, is_shared))


def _ratios(found: Sequence[MatchCosts], some: list[str], others: list[str], is_shared: bool) -> list[float]:
    """Return how many times as fast the best of some is as the best of others, for each that was measured."""
    ratios = []
    for one in found:
        ours, theirs = ([one.per_s(name, is_shared) or 0.0 for name in names] for names in (some, others))
        if max(theirs):
            ratios.append(max(ours) / max(theirs))
    return ratios


def _mean(what: str, paper: str, wanted: float, ratios: list[float]) -> Goal:
    if not ratios:
        return Goal(what, paper, wanted, None)
    spread = f" ({min(ratios):.2g} to {max(ratios):.2g})"
    return Goal(what + spread, paper, wanted, float(np.exp(np.mean(np.log(ratios)))))


def _matches(bench: Bench) -> FigureResult:
    """Matching alone: the figure without upkeep, which is the same for all."""
    rows, goals, charts = list[Row](), list[Goal](), list[Chart]()
    for count in bench.run.scale.queries:
        found = [bench.matched(ContinuousWorkload("C1", one), count) for one in CONSTRAINTS]
        for constraint, (alone, shared) in zip(CONSTRAINTS, found, strict=True):
            rows += [
                {
                    "queries": count,
                    "constraints": constraint,
                    "name": name,
                    "match_us": cost.micros,
                    "per_s": 1e6 / cost.micros,
                    "shared_match_us": shared[name].micros,
                    "shared_per_s": 1e6 / shared[name].micros,
                    "kb": cost.nbytes / 2**10,
                }
                for name, cost in alone.items()
            ]
        for is_shared in (False, True):
            costs = [one[is_shared] for one in found]
            what = f"{count:,} queries{', shared' * is_shared}"
            for name, wanted in (("OpIndex", 2.0), ("RP-trees", 1.5)):
                ratios = [one[name].micros / one[_CH].micros for one in costs]
                goals.append(_mean(f"{what}: {_CH} over {name}", _PAPER[name], wanted, ratios))
            best = [min(cost.micros for name, cost in one.items() if name not in _OURS) for one in costs]
            ratios = [least / one["rarest first"].micros for least, one in zip(best, costs, strict=True)]
            goals.append(_mean(f"{what}: rarest first over the best other", "-", 1.0, ratios))
            lines = [Line(name, CONSTRAINTS, [1e6 / one[name].micros for one in costs]) for name in costs[0]]
            charts.append(Chart(what, "constraints", "matched records/s", lines, "y"))
    left_out = {"upkeep_us", "shared_upkeep_us", "minute"}
    columns = {name: text for name, text in _COLUMNS.items() if name not in left_out} | {"kb": "index, kB"}
    return FigureResult("7e", "matching alone", columns, rows, goals, [_NOTE], charts)


_SIDE_COLUMNS = {"side": "side, %", **{k: v for k, v in _COLUMNS.items() if k != "queries"}}
_SIDES = (0.0005, 0.002, 0.01, 0.05)


def tornado(run: StarRun) -> list[FigureResult]:
    """Figures 10a and 10c: queries with ranges, beside the index of Tornado, by constraints and by sides."""
    bench = bench_of(run)
    count = min(10_000, max(run.scale.queries))
    by_constraints = [
        (f"{one} constraints", ContinuousWorkload("C1", one, ranged=True)) for one in CONSTRAINTS
    ]
    by_side = [(f"side {100 * side:g} %", ContinuousWorkload("C1", 2, side, True)) for side in _SIDES]
    parts = []
    for number, what, workloads in (("10a", "constraints", by_constraints), ("10c", "sides", by_side)):
        rows, goals = list[Row](), list[Goal]()
        for label, workload in workloads:
            measured = bench.measured(workload, count, False)
            side: Row = {"side": None if workload.side is None else 100 * workload.side}
            rows += [{**side, "constraints": workload.constraints, **row} for row in _rows(measured)]
            ours = ("rarest first", "rarest first + MT", "rarest first + totals")
            for names in ((f"{_CH} + MT",), (f"{_ENDLESS} + MT",), ours):
                ratio = _ratios([measured], list(names), ["FAST"], False)[0]
                goals.append(Goal(f"{label}: {names[0]} over FAST", "1.35 to 1.55 x", 1.35, ratio))
        title = f"throughput against {what}, {count:,} queries with ranges, Q_C1-Count"
        parts.append(FigureResult(number, title, _SIDE_COLUMNS, rows, goals, [_NOTE]))
    return parts


def memory(run: StarRun) -> list[FigureResult]:
    """Figures 13c and 13d: bytes of CH-trees and partial results, with an MT-index and without."""
    bench, parts = bench_of(run), []
    for number, is_top in (("13c", False), ("13d", True)):
        rows, goals = list[Row](), list[Goal]()
        for one in CONSTRAINTS:
            count = min(10_000, max(run.scale.queries))
            found = bench.measured(ContinuousWorkload("C1", one), count, is_top)
            index, upkeep = found.match[False][_CH].nbytes, found.upkeep[False] or found.upkeep[True]
            sizes = {way: index + upkeep[way].nbytes for way in (RECOMPUTING.name, MT.name, RUNNING.name)}
            rows += [
                {
                    "queries": count,
                    "constraints": one,
                    "name": way,
                    "index_kb": index / 2**10,
                    "kb": size / 2**10,
                    "minute": found.minute,
                }
                for way, size in sizes.items()
            ]
            ratio = sizes[MT.name] / sizes[RECOMPUTING.name]
            goals.append(Goal(f"{one} constraints: CH + MT over CH", "about 4 x", 4.0, ratio, least=False))
        columns = {
            "queries": "queries",
            "constraints": "constraints",
            "name": "upkeep",
            "index_kb": "CH-trees, kB",
            "kb": "with results, kB",
            "minute": "records a minute",
        }
        title = f"memory of CH-trees, Q_C1-{'TopK' if is_top else 'Count'}"
        parts.append(FigureResult(number, title, columns, rows, goals, [_NOTE]))
    return parts
