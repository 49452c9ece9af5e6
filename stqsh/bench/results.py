"""What a benchmark gave: its rows of figures, how they came about, and their form in a file.

The file: `{"format": 1, "environment": …, "load": {"begin", "end"}, "benchmarks": [{"bench", "options",
"seconds", "repetitions", "key", "figures", "columns", "rows"}]}`; a figure is
`{"median", "q1", "q3", "min", "max", "n"}`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import orjson

from stqsh.bench.figures import Better, plain, pool, revived
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.environment import environment, load
from stqsh.bench.registry import Benchmark

FORMAT = 1


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One benchmark's rows; seconds: all of it; key, figures, columns: as its module says."""

    bench: str
    options: Mapping[str, Any]
    seconds: float
    repetitions: int
    key: Sequence[str]
    figures: Mapping[str, Better]
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """Several benchmarks in one go; load: the machine's, at `begin` and `end` (1, 5, 15 minutes)."""

    environment: Mapping[str, Any]
    load: Mapping[str, Any]
    results: Sequence[BenchmarkResult]

    def find(self, bench: str) -> BenchmarkResult | None:
        """Return the result of that benchmark."""
        return next((result for result in self.results if result.bench == bench), None)


class Recorder:
    """Notes the environment at the beginning; `finish` makes the run."""

    def __init__(self) -> None:
        self.environment = environment()
        self.load = load()
        self.results: list[BenchmarkResult] = []

    def finish(self) -> BenchmarkRun:
        """Return all that was recorded."""
        return BenchmarkRun(self.environment, {"begin": self.load, "end": load()}, self.results)


def measure(benchmark: Benchmark, options: Any, repetitions: int, say: Say) -> BenchmarkResult:
    """Run a benchmark several times and pool the figures."""
    module = benchmark.load()
    begun = time.perf_counter()
    measured = []
    for number in range(repetitions):
        if repetitions > 1:
            say(f"{benchmark.name}: repetition {number + 1} of {repetitions}")
        measured.append(module.measure(options, say))
    rows = pool(measured, module.KEY, module.FIGURES)
    seconds = time.perf_counter() - begun
    sizes = {field.name: getattr(options, field.name) for field in fields(options)}
    return BenchmarkResult(
        benchmark.name, sizes, seconds, repetitions, module.KEY, module.FIGURES, module.COLUMNS, rows
    )


def encoded(run: BenchmarkRun) -> bytes:
    """Write a run as JSON."""
    results = [{**asdict(result), "rows": [_plain_row(row) for row in result.rows]} for result in run.results]
    content = {"format": FORMAT, "environment": run.environment, "load": run.load, "benchmarks": results}
    how = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(content, option=how)


def read(path: Path) -> BenchmarkRun:
    """Read a run that was saved.

    Raises:
        ValueError: the file cannot be read, or is none of these.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ValueError(f"cannot read the saved run {path}: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(
            f"{path} is no saved run of format {FORMAT}: make one with `stqsh bench … --save {path}`"
        )
    results = [
        BenchmarkResult(**{**result, "rows": [_revived_row(row) for row in result["rows"]]})
        for result in content["benchmarks"]
    ]
    return BenchmarkRun(content["environment"], content["load"], results)


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in row.items()}


def _revived_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: revived(value) for name, value in row.items()}
