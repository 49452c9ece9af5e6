"""All benchmarks, one line each: what `stqsh bench list`, `all`, the help and the tests go by.

A benchmark is a module of `stqsh.bench.suite` with

- `Options`: a frozen dataclass; its defaults are the full sizes, `metadata={"help": …}` of a field its help.
  The command line is made from it.
- `QUICK`: an `Options` of sizes for `make bench`: at most 45 s on a machine that does nothing else.
- `measure(options, say)`: gives rows. A list of floats is a figure's samples; warm-up is its own affair.
- `COLUMNS`: the table, a row's key to its heading; `KEY`: the keys that tell rows apart; `FIGURES`: the ones
  that `--compare` looks at, and which way they are better (`MORE` or `LESS` of `stqsh.bench.figures`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A name, what it measures in one line, whether `stqsh bench all` runs it, and its module.

    module: "" for `stqsh.bench.suite.NAME`. has_own_command: it answers with something other than rows.
    """

    name: str
    help: str
    in_all: bool = True
    module: str = ""
    has_own_command: bool = False

    def load(self) -> Any:
        """Import the module."""
        return import_module(self.module or f"stqsh.bench.suite.{self.name}")


BENCHMARKS = (
    Benchmark("start", "The time until the prompt shows, and until a session is ready."),
    Benchmark(
        "keys",
        "The time from a keystroke in the shell to its echo, at rest and under load.",
        module="stqsh.bench.suite.key_echo",
    ),
    Benchmark(
        "batch",
        "The floor: a batch with nothing to do, and one with 10,000 records.",
        module="stqsh.bench.suite.floor",
    ),
    Benchmark("idle", "The processor time of an engine that has nothing to do."),
    Benchmark("range", "Records a second end to end against the number of range queries."),
    Benchmark("moving", "Records a second end to end where a share of the queries follow objects."),
    Benchmark("freshness", "How late an update is read, at shares of the greatest load."),
    Benchmark("knn", "Records a second end to end against the number of kNN queries."),
    Benchmark("keyword", "Posts a second end to end against the number of keyword queries."),
    Benchmark("kernels", "What a record costs a core in each family of kernels, without Spark."),
    Benchmark("snapshot", "How long snapshot SELECTs take over a million objects."),
    Benchmark("recover", "How long an engine that was killed takes until it goes on."),
    Benchmark(
        "peers",
        "The same questions to PySpark, PostGIS, Flink and Tile38; answers compared.",
        in_all=False,
        module="stqsh.bench.peers",
    ),
    Benchmark("register", "How long very many queries take to come and to go, from their text to the slots."),
    Benchmark("soak", "What grows in minutes at full load: memory, disk, open files.", in_all=False),
    Benchmark(
        "sole",
        "The figures of SOLE section 7.",
        in_all=False,
        module="stqsh.bench.sole",
        has_own_command=True,
    ),
)


def find(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
        ValueError: there is none; the message names all.
    """
    for benchmark in BENCHMARKS:
        if benchmark.name == name:
            return benchmark
    names = ", ".join(benchmark.name for benchmark in BENCHMARKS)
    raise ValueError(f"no benchmark {name!r}; there are {names}")
