"""The results of a benchmark: its rows, how they were measured, and their file format.

The file: `{"format": 1, "environment": …, "load": {"begin", "end"}, "benchmarks": [{"bench", "options",
"seconds", "repetitions", "key", "figures", "columns", "rows"}]}`; a figure is
`{"median", "q1", "q3", "min", "max", "n"}`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import orjson

from stqsh.bench.figures import Better, Row, pool
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.environment import environment, load
from stqsh.bench.registry import Benchmark

FORMAT = 1


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The rows of one benchmark.

    Attributes:
        seconds: the time of all repetitions.
        key, figures, columns: see `stqsh.bench.registry`.
    """

    bench: str
    options: Mapping[str, Any]
    seconds: float
    repetitions: int
    key: Sequence[str]
    figures: Mapping[str, Better]
    columns: Mapping[str, str]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """The results of one or more benchmarks.

    Attributes:
        load: the machine's load over 1, 5 and 15 minutes at the `begin` and at the `end`.
    """

    environment: Mapping[str, Any]
    load: Mapping[str, Any]
    results: Sequence[BenchmarkResult]

    def find(self, bench: str) -> BenchmarkResult | None:
        """Return the result of that benchmark."""
        return next((result for result in self.results if result.bench == bench), None)


class Recorder:
    """Collect results, with the environment as it was at the beginning."""

    def __init__(self) -> None:
        self.environment = environment()
        self.load = load()
        self.results: list[BenchmarkResult] = []

    def finish(self) -> BenchmarkRun:
        """Return the recorded run."""
        return BenchmarkRun(self.environment, {"begin": self.load, "end": load()}, self.results)


def measure(benchmark: Benchmark, options: Any, repetitions: int, say: Say) -> BenchmarkResult:
    """Run a benchmark one or more times and pool the figures."""
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


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The content of a file with a saved run."""

    format: int
    environment: Mapping[str, Any]
    load: Mapping[str, Any]
    benchmarks: Sequence[BenchmarkResult]


def encoded(run: BenchmarkRun) -> bytes:
    """Write a run as JSON."""
    content = SavedRun(FORMAT, run.environment, run.load, run.results)
    how = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(content, option=how)


def read(path: Path) -> BenchmarkRun:
    """Read a saved run.

    Raises:
        ValueError: the file cannot be read, or is no saved run.
    """
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=SavedRun)
    except msgspec.ValidationError:
        saved = None
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"cannot read the saved run {path}: {error}") from None
    if saved is None or saved.format != FORMAT:
        raise ValueError(
            f"{path} is not a saved run of format {FORMAT}: make one with `stqsh bench … --save {path}`"
        )
    return BenchmarkRun(saved.environment, saved.load, saved.benchmarks)
