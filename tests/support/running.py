"""Run typed scripts in a session, whatever its engine; shift cases in time so that they follow each other."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stqsh.client.api import Session
from stqsh.client.results import Answer
from stqsh.client.run import RunHandle
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import Target
from support.cases import Area, Case, Clock, Table
from support.scripts import Line, ScriptCase, printed, write_script


def run_script(session: Session, text: str, file: Path | None = None, form: str = "jsonl") -> bytes:
    """Execute a script as `stqsh run` does; what comes out in that format."""
    out, number = io.BytesIO(), [1]
    writer = open_writer(form, Target(out))

    def follow(run: RunHandle | None) -> None:
        for updates in session.updates(until=run) if run else ():
            writer.updates(updates)

    def at(statement: int) -> None:
        number[0] = statement

    for outcome in session.outcomes(text, file=str(file) if file else None, on_statement=at):
        if isinstance(outcome, Answer):
            writer.answer(outcome.statement or number[0], outcome)
        follow(outcome if isinstance(outcome, RunHandle) else None)
    follow(session.finish_script())
    return out.getvalue()


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    """Return the rows of the last answer of some statements."""
    answers = [found for found in session.execute(text) if isinstance(found, Answer)]
    found: list[dict[str, Any]] = answers[-1].table.to_pylist()
    return found


def log_so_far(session: Session, until: RunHandle) -> bytes:
    """The whole update log up to the end of a RUN, as jsonl."""
    out = io.BytesIO()
    writer = open_writer("jsonl", Target(out))
    for updates in session.updates(until=until, from_start=True):
        writer.updates(updates)
    return out.getvalue()


def parsed(output: bytes) -> list[Line]:
    """The lines of jsonl."""
    return [json.loads(line) for line in output.decode().splitlines()]


def alike(a: Any, b: Any) -> bool:
    """Equal, but for the last digits of floats."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


def agree(output: list[Line], expected: list[Line]) -> None:
    """Raise AssertionError, with what differs first, unless two outputs are alike."""
    for number, (a, b) in enumerate(zip(output, expected, strict=False), start=1):
        assert alike(a, b), f"line {number}: {a} is not {b}"
        assert list(a["row"]) == list(b["row"])
    assert len(output) == len(expected), (output, expected)


def shifted(script: ScriptCase, base_tick: int, suffix: str) -> ScriptCase:
    """The same case with its first step at `base_tick`, and `suffix` on all names."""
    case = script.case
    by = (base_tick - case.clock.base_tick) * case.clock.tick_us

    def row(old: dict[str, Any], columns: Any = case.spec["columns"]) -> dict[str, Any]:
        times = [name for name, kind in columns if kind == "TIMESTAMP"]
        return old | {name: old[name] + by for name in times if old[name] is not None}

    def part(old: Any) -> Any:
        if isinstance(old, dict):
            renamed = {name: part(content) for name, content in old.items()}
            named = {"name"} if "id" in old or old.get("type") == "area" else set()
            named |= {"stream", "table"}
            return renamed | {name: old[name] + suffix for name in named & set(old)}
        if isinstance(old, list):
            if old[:1] == ["lit"] and old[2] == "TIMESTAMP" and old[1] is not None:
                return ["lit", old[1] + by, "TIMESTAMP"]
            return [part(content) for content in old]
        return old

    tables = {
        id_: Table(part(table.spec), [row(old, table.spec["columns"]) for old in table.rows])
        for id_, table in case.tables.items()
    }
    areas = {id_: Area(part(area.spec), area.members) for id_, area in case.areas.items()}
    moved = Case(
        case.spec | {"name": case.spec["name"] + suffix},
        Clock(base_tick, case.clock.tick_us),
        case.steps,
        [(step, row(old)) for step, old in case.records],
        [(step, _named(part(command), command)) for step, command in case.commands],
        tables,
        areas,
    )
    files = [[row(old) for old in rows] for rows in script.files]
    return replace(script, case=moved, files=files, looks=[(step, part(look)) for step, look in script.looks])


def _named(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """A command that names a query only by its id has no name to change."""
    return new if "query" in old else old


def not_before(script: ScriptCase, step: int) -> ScriptCase:
    """The same case with all that comes before a step put off to that step."""
    case = script.case
    records = [(max(step, old), row) for old, row in case.records]
    commands = [(max(step, old), command) for old, command in case.commands]
    looks = [(max(step, old), look) for old, look in script.looks]
    late = replace(case, records=records, commands=commands, steps=max(step, case.steps))
    return replace(script, case=late, looks=looks)


@dataclass(frozen=True)
class Together:
    """Several cases as streams of one script, all with data from the same tick on.

    `created`: before which step each stream is created; the first one always before step 1.
    """

    scripts: list[ScriptCase]
    created: list[int]

    @staticmethod
    def of(scripts: list[ScriptCase], created: Sequence[int] = ()) -> Together:
        """Give all cases the first one's base tick, names of their own, and the longest one's steps.

        What a stream has from before its creation comes in with the step after it.
        """
        first = scripts[0].case
        steps = [1, *(min(step, first.records[-1][0]) for step in created)]
        steps += [1] * (len(scripts) - len(steps))
        named = [
            shifted(script, first.clock.base_tick, f"_{number}") for number, script in enumerate(scripts)
        ]
        late = [not_before(script, step) for script, step in zip(named, steps, strict=False)]
        last = max(script.case.steps for script in late)
        whole = [replace(script, case=replace(script.case, steps=last)) for script in late]
        return Together(whole, steps[: len(scripts)])

    def write(self, folder: Path) -> Path:
        """Write the files and the script; the script's path."""
        return write_script(folder, self.scripts, self.created)

    def lines(self) -> list[Line]:
        """The lines that the script prints, in order."""
        return printed(self.scripts, self.created)
