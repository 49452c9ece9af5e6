"""Cases as scripts: their files, their statements in order, and the lines that `stqsh run` must print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from support import oracle
from support.cases import Case, Clock, Row, Spec
from support.files import write_regions, write_rows
from support.oracle import significant
from support.sql import (
    command_text,
    create_area,
    create_stream,
    create_table,
    instant,
    run_text,
    select_text,
)

Line = dict[str, Any]


class Said(NamedTuple):
    """A statement that is to be said before a step; for a snapshot: the rows that it must print."""

    step: int
    text: str
    rows: list[Line] | None = None


@dataclass(frozen=True)
class ScriptCase:
    """A case whose records come from files of one format, in the stream's declared order.

    looks: after which steps which snapshots are taken.
    """

    case: Case
    files: list[list[Row]]
    form: str
    looks: list[tuple[int, Spec]] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Write the files and the script; the script's path."""
        return write_script(folder, [self])

    def write_files(self, folder: Path) -> None:
        """Write the files of the stream, and those of its tables and regions."""
        for number, rows in enumerate(self.files):
            write_rows(folder / f"part-{number}.{self.form}", self.case.spec, rows)
        for table in self.case.tables.values():
            write_rows(folder / f"{table.spec['name']}.jsonl", table.spec, table.rows)
        for area in self.case.areas.values():
            if area.spec["set"]:
                write_regions(folder / f"{area.spec['name']}.geojson", area)

    def said(self, folder: str = "", created: int = 1) -> list[Said]:
        """All statements but RUN; `folder` begins the files' paths, `created` is the stream's step."""
        case, names = self.case, {query["id"]: query["name"] for query in self.case.queries}
        texts = [create_area(a, f"{folder}{a.spec['name']}.geojson") for a in case.areas.values()]
        texts += [create_table(t, f"{folder}{t.spec['name']}.jsonl") for t in case.tables.values()]
        texts.append(create_stream(case.spec, f"{folder}part-*.{self.form}"))
        out = [Said(created, text) for text in texts]
        out += [Said(step, command_text(command, names)) for step, command in case.commands]
        for number, (step, select) in enumerate(self.looks):
            out.append(Said(step + 1, select_text(select, number) + ";", self.rows(step, select)))
        return sorted(out, key=lambda said: said.step)

    def rows(self, step: int, select: Spec) -> list[Line]:
        """The rows of a snapshot after a step, as printed."""
        found = oracle.snapshot(oracle.after(self.case, step), select, step)
        kinds = dict(select["select"])
        return [
            {out: _shown(content, _type(kinds.get(out), self.case)) for out, content in row.items()}
            for row in found
        ]

    def updates(self) -> list[Line]:
        """The lines of all updates, in order."""
        return expected_lines(self.case)

    def lines(self) -> list[Line]:
        """All lines that the script prints, in order."""
        return printed([self])


class Replayed(NamedTuple):
    """The clock of a replay, and the records that it takes with their steps."""

    clock: Clock
    taken: list[tuple[int, Row]]


def replayed(spec: Spec, files: list[list[Row]]) -> Replayed:
    """How files of a stream are replayed: in which order, at which steps, without what is put aside."""
    ticked, order = [], spec["order"]
    for number, rows in enumerate(files):
        latest = None
        for place, row in enumerate(rows):
            if spec["kind"] == "event" and row[spec["x"]] is None:
                continue
            tick = row["ts"] // spec["tick_us"]
            latest = tick if latest is None or order == "time" else max(latest, tick)
            rank = (row["ts"], number, place) if order == "time" else (latest, number, place)
            ticked.append((rank, tick if order == "time" else latest, row))
    ticked.sort(key=lambda item: item[0])
    base = ticked[0][1]
    clock = Clock(base, spec["tick_us"])
    return Replayed(clock, oracle.accepted(spec, clock, [(tick - base + 1, row) for _, tick, row in ticked]))


def statements(clock: Clock, said: Iterable[Said]) -> list[Said]:
    """What is said in order of its steps, with the RUNs up to them, and one to the end."""
    out, done = [], 0
    for one in sorted(said, key=lambda one: one.step):
        if one.step - 1 > done:
            out.append(Said(one.step, run_text(clock, done, one.step - 1)))
            done = one.step - 1
        out.append(one)
    return [*out, Said(done + 1, "RUN;")]


def all_said(scripts: Sequence[ScriptCase], created: Sequence[int], alone: bool) -> list[Said]:
    """The whole script of several cases; a case that is alone has its files beside the script."""
    said = [
        one
        for number, (script, step) in enumerate(zip(scripts, created, strict=True))
        for one in script.said("" if alone else f"{number}/", step)
    ]
    return statements(scripts[0].case.clock, said)


def write_script(folder: Path, scripts: Sequence[ScriptCase], created: Sequence[int] = (1,)) -> Path:
    """Write files and script; the script's path."""
    alone = len(scripts) == 1
    for number, script in enumerate(scripts):
        below = folder if alone else folder / str(number)
        below.mkdir(exist_ok=True)
        script.write_files(below)
    file = folder / "script.stq"
    texts = [one.text for one in all_said(scripts, created, alone)]
    file.write_text("\n".join([*texts, ""]), encoding="utf-8")
    return file


def printed(scripts: Sequence[ScriptCase], created: Sequence[int] = (1,)) -> list[Line]:
    """The lines of a script: updates by step and query, snapshots after the updates of their step."""
    ranked: list[tuple[tuple[Any, ...], Line]] = []
    for number, one in enumerate(all_said(scripts, created, alone=True), start=1):
        for row in one.rows or ():
            ranked.append(((one.step - 1, 1, number), {"statement": number, "row": row}))
    for script in scripts:
        ranked += [((line["step"], 0, line["query"]), line) for line in script.updates()]
    return [line for _, line in sorted(ranked, key=lambda item: item[0])]


def expected_lines(case: Case) -> list[Line]:
    """The updates of a case as parsed lines of `--format jsonl`."""
    queries = {query["id"]: query for query in case.queries}
    names, world = [name for name, _ in case.spec["columns"]], oracle.world_of(case)

    def shown(u: oracle.Update, e: Any) -> Any:
        row = dict(zip(names, u.row, strict=True))
        content = oracle.value(_measured(e, u.distance), row, case.clock.at(u.step), world)
        return _shown(content, _type(e, case))

    def line(u: oracle.Update) -> Line:
        query = queries[u.query]
        head = {"query": query["name"], "step": u.step, "at": instant(case.clock.at(u.step)), "op": u.op}
        row = {out: shown(u, e) for out, e in query["select"]}
        return head | {"key": u.key} | ({"why": u.why} if u.why else {}) | {"row": row}

    run = significant.run if case.spec["retain"] == "significant" else oracle.run
    ordered = sorted(run(case), key=lambda u: (u.step, queries[u.query]["name"], u.op == "+", u.key))
    return [line(u) for u in ordered]


def _measured(e: Any, far: float | None) -> Any:
    """An expression with its DISTANCE filled in."""
    if e == ["distance"]:
        return ["lit", far, "DOUBLE"]
    return [_measured(part, far) for part in e] if isinstance(e, list) else e


def _type(e: Any, case: Case) -> str | None:
    """The type of a selected column; None of anything else."""
    match e:
        case ["col", name]:
            return str(dict(case.spec["columns"])[name])
        case ["join", table, _, name]:
            return str(dict(case.tables[table].spec["columns"])[name])
        case ["fn", "DATE_TRUNC" | "TIME_BUCKET", *_]:
            return "TIMESTAMP"
        case ["fn", _, _, _, kind] | ["case", _, _, kind]:
            return str(kind)
    return None


def _shown(content: Any, kind: str | None) -> Any:
    return instant(content) if kind == "TIMESTAMP" and content is not None else content
