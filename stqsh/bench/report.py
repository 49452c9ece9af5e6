"""How a benchmark answers: a table for the eye, JSON for comparison, and the machine it ran on."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

Row = Mapping[str, Any]

#: Columns of a table that goes to a file.
_WIDTH = 120


def environment() -> dict[str, Any]:
    """Describe the machine and the versions that figures depend on."""
    import numba
    import pyspark

    return {
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "numba": numba.__version__,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Sum up repeated figures: median, minimum and maximum."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def show(title: str, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Print rows as a table; `columns` maps a row's key to its heading."""
    table = Table(title=title, title_justify="left")
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(cell(row.get(key)) for key in columns))
    console().print(table)


def console() -> Console:
    """Where tables go: the terminal, or a file with lines of a fixed width."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(width=_WIDTH, highlight=False)


def cell(value: Any) -> str:
    """Write a figure with as many digits as mean something."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def save(path: Path, name: str, rows: Sequence[Row], **more: Any) -> None:
    """Write `{"bench", "environment", ..., "results": rows}` as JSON."""
    content = {"bench": name, "environment": environment(), **more, "results": list(rows)}
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
