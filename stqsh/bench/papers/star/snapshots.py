"""Figures 6 and 13: the response of snapshots against constraints, and against the memory for views."""

from __future__ import annotations

from dataclasses import asdict

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.star.asking import ask
from stqsh.bench.papers.star.contenders import baseline_1, baseline_2, q_cache, qo_cache, scan, with_words
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import Workload

AGGREGATES = ("COUNT(*)", "TOPK(body, 10)")
_COLUMNS = {
    "set": "questions",
    "constraints": "constraints",
    "name": "way",
    "mean_ms": "mean ms",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "times": "times Baseline-1",
    "mb": "kept, MB",
    "learned_s": "warm-up s",
    "paper": "paper",
}
_OBJECTS = "10 to 40 % quicker than Q"
_PAPER = {1: "Q about 10 x", 2: "Q 4 to 9 x", 3: "Q 4 to 9 x", 4: "Q 4 to 9 x"}


def constraints(bench: StarRun) -> list[FigureResult]:
    """Figure 6: a part for each set of questions."""
    return [
        _constraints(bench, f"6{part}", kind, aggregate)
        for part, (kind, aggregate) in zip(
            "abcd", [(kind, one) for one in AGGREGATES for kind in ("S1", "S2")], strict=True
        )
    ]


def _constraints(bench: StarRun, number: str, kind: str, aggregate: str) -> FigureResult:
    rows, lines, goals = list[Row](), dict[str, list[float]](), list[Goal]()
    counts = (1, 2, 3, 4)
    for count in counts:
        workload, budget = Workload(kind, aggregate, count), bench.scale.budget
        ways = [scan(), baseline_1(), baseline_2(budget), q_cache(budget), qo_cache(budget, budget)]
        ways.append(with_words(budget))
        found = ask(bench.world, workload, ways, bench.scale, bench.say)
        names = ("Baseline-1", "Baseline-2", "Q-cache", "QO-cache", "with words")
        plain, ranked, quick, both, listed = (found[name].mean_ms for name in names)
        for name, timed in found.items():
            lines.setdefault(name, []).append(timed.mean_ms)
            paper = {"Q-cache": _PAPER[count], "Baseline-2": "at least 2 x", "QO-cache": _OBJECTS}.get(
                name, ""
            )
            more: Row = {
                "set": workload.name,
                "constraints": count,
                "times": plain / timed.mean_ms,
                "paper": paper,
            }
            rows.append({**asdict(timed), **more, "mb": timed.nbytes / 2**20})
        wanted = 10.0 if count == 1 else 4.0
        what = f"{workload.name}, {count}: Q-cache over"
        goals.append(Goal(f"{what} Baseline-1", _PAPER[count], wanted, plain / quick))
        goals.append(Goal(f"{what} Baseline-1, with words", "-", wanted, plain / listed))
        objects = f"{workload.name}, {count}: QO-cache over Q-cache"
        goals.append(Goal(objects, _OBJECTS, 1.1, quick / both))
        goals.append(Goal(f"{what} Baseline-2", "2 to 3 x", 2.0, ranked / quick))
    curves = [Line(name, counts, times) for name, times in lines.items()]
    charts = [Chart(workload.name, "constraints", "mean ms", curves, "y")]
    title = f"snapshot response against constraints, {workload.name}"
    return FigureResult(number, title, _COLUMNS, rows, goals, [_note(bench)], charts)


def memory(bench: StarRun) -> list[FigureResult]:
    """Figures 13a and 13b: the whole memory for views against half and an eighth of it."""
    return [_memory(bench, part, one) for part, one in zip(("13a", "13b"), AGGREGATES, strict=True)]


def _memory(bench: StarRun, number: str, aggregate: str) -> FigureResult:
    workload, budget = Workload("S1", aggregate, 1), bench.scale.budget
    ways = [q_cache(budget // part, f"{budget // part / 2**20:g} MB") for part in (1, 2, 8)]
    found = ask(bench.world, workload, ways, bench.scale, bench.say)
    whole, half, _ = found.values()
    share = {"13a": 0.4, "13b": 0.2}[number]
    paper = f"twice the memory: less than {share:.0%} of the time".replace("%", " %")
    rows: list[Row] = [
        {**asdict(one), "set": workload.name, "constraints": 1, "mb": one.nbytes / 2**20, "paper": words}
        for one, words in zip(found.values(), (paper, "", ""), strict=True)
    ]
    what = f"{workload.name}: time with the whole over half"
    goals = [Goal(what, paper, share, whole.mean_ms / half.mean_ms, least=False)]
    columns = {name: text for name, text in _COLUMNS.items() if name != "times"}
    title = f"snapshot response against memory, {workload.name}"
    return FigureResult(number, title, columns, rows, goals, [_note(bench)])


def _note(bench: StarRun) -> str:
    scale = bench.scale
    return (
        f"{scale.posts:,} posts on one slot; processor time of an answer without parsing, {scale.asked}"
        f" questions after {scale.past} others of the same kind. All ways gave equal answers. The paper's"
        " ratios are of a system that reads objects one by one; a scan of columns leaves views less to gain."
    )
