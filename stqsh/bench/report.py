"""Show the results of benchmarks as tables, and save figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import Console
from rich.table import Table

from stqsh.bench.figures import Figure, Row
from stqsh.bench.harness.environment import environment

if TYPE_CHECKING:
    from stqsh.bench.compare import Difference
    from stqsh.bench.results import BenchmarkResult

_WIDTH = 150
"""The width of a table in a file."""


def answer(result: BenchmarkResult) -> None:
    """Print the rows of a benchmark: medians, and the spread of its figures."""
    sizes = ", ".join(
        f"{name} {_said(value)}" for name, value in result.options.items() if value not in (None, "")
    )
    title = f"{result.bench}: {sizes}" if sizes else result.bench
    how = f"medians, ± a quarter of the samples each way; {result.seconds:.0f} s in all"
    show(f"{title}\n{how}", result.rows, result.columns, frozenset(result.figures))


def show(
    title: str, rows: Sequence[Row], columns: Mapping[str, str], spread: frozenset[str] = frozenset()
) -> None:
    """Print rows as a table.

    Args:
        columns: the headings by the keys of a row.
        spread: the keys whose spread is shown, too.
    """
    table = Table(title=title, title_justify="left")
    for heading in columns.values():
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*(cell(row.get(key), spread=key in spread) for key in columns))
    console().print(table)


def show_differences(found: Sequence[Difference], name: str) -> None:
    """Print a comparison with the run saved as `name`."""
    table = Table(title=f"beside {name}: now / then, and what noise leaves for it", title_justify="left")
    for heading in ("benchmark", "row", "figure", "better", "then", "now", "now/then", "", ""):
        table.add_column(heading, justify="left" if heading in ("benchmark", "row", "figure") else "right")
    for item in found:
        bounds = "" if item.ratio.low is None else f"{item.ratio.low:.2f} to {item.ratio.high:.2f}"
        figures = (cell(item.then.median), cell(item.now.median), f"{item.ratio.value:.2f}", bounds)
        table.add_row(item.bench, item.row, item.name, item.better, *figures, item.verdict)
    console().print(table)


def console() -> Console:
    """Return the console for tables: the terminal, or a file with lines of a fixed width."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(width=_WIDTH, highlight=False)


def cell(value: Any, *, spread: bool = False) -> str:
    """Format a value with its significant digits; `spread`: with half the distance of its quartiles."""
    if value is None:
        return "-"
    if isinstance(value, Figure):
        around = f" ±{cell((value.q3 - value.q1) / 2)}" if spread and value.n > 1 else ""
        return cell(value.median) + around
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def save(path: Path, name: str, rows: Sequence[Row], **more: Any) -> None:
    """Write `{"bench", "environment", ..., "results": rows}` as JSON."""
    content = {"bench": name, "environment": environment(), **more, "results": list(rows)}
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _said(value: Any) -> str:
    return ", ".join(map(_said, value)) if isinstance(value, (tuple, list)) else cell(value)
