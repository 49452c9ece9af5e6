"""List all benchmarks for `stqsh bench list`, `all`, the help and the tests.

A benchmark is a module of `stqsh.bench.suite` with

- `FULL`: its options at full size, a frozen dataclass from whose fields the command line is made;
  `metadata={"help": …}` of a field is its help.
- `QUICK`: the same with sizes for `make bench`, at most 45 s on an otherwise idle machine.
- `measure(options, say)`: returns rows. A list of floats holds the samples of a figure; the module decides
  how to warm up.
- `COLUMNS`: the headings of the table by the keys of a row; `KEY`: the keys that identify a row; `FIGURES`:
  the keys that `--compare` compares, and which way they are better (`MORE` or `LESS` of
  `stqsh.bench.figures`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its name, what it measures in one line, and whether `stqsh bench all` runs it.

    Attributes:
        module: its module, "" for `stqsh.bench.suite.NAME`.
        has_own_command: whether its result is something other than rows.
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
        "The floor: an empty batch, and one with 10,000 records.",
        module="stqsh.bench.suite.floor",
    ),
    Benchmark("idle", "The processor time of an idle engine."),
    Benchmark("range", "Records a second end to end against the number of range queries."),
    Benchmark("aggregates", "Records a second end to end against the number of COUNT(*) queries."),
    Benchmark("moving", "Records a second end to end if a share of the queries follow objects."),
    Benchmark("freshness", "How late an update is read, at shares of the greatest load."),
    Benchmark("knn", "Records a second end to end against the number of kNN queries."),
    Benchmark("keyword", "Posts a second end to end against the number of keyword queries."),
    Benchmark("steps", "Steps a second end to end with few records each, and queries of every kind."),
    Benchmark("kernels", "The cost of a record for each family of kernels on one core, without Spark."),
    Benchmark("scale", "What a batch costs driver and tasks at 2 to 64 slots, and what as many cores take."),
    Benchmark("snapshot", "How long snapshot SELECTs take over a million objects."),
    Benchmark("recover", "How long a killed engine takes to recover."),
    Benchmark(
        "peers",
        "The same queries in PySpark, PostGIS, Flink and Tile38, with equal answers.",
        in_all=False,
        module="stqsh.bench.peers",
    ),
    Benchmark(
        "snapshot-peers",
        "Snapshots beside PostGIS, DuckDB and SedonaDB, with equal answers.",
        in_all=False,
        module="stqsh.bench.peers.snapshots",
    ),
    Benchmark("kafka", "Records a second from a Kafka broker, and how late updates are.", in_all=False),
    Benchmark("handover", "What a change of the routing costs while records flow.", in_all=False),
    Benchmark("balance", "What SET balance does on an engine while a hot spot goes round.", in_all=False),
    Benchmark("register", "How long it takes to register and to drop very many queries."),
    Benchmark("soak", "What grows in an hour at a steady load: memory, disk, open files.", in_all=False),
    Benchmark(
        "sole",
        "The figures of SOLE section 7.",
        in_all=False,
        module="stqsh.bench.papers.sole",
        has_own_command=True,
    ),
    Benchmark(
        "star",
        "Figures of STAR section 8: snapshots of aggregates with views, indexes of continuous queries.",
        in_all=False,
        module="stqsh.bench.papers.star",
        has_own_command=True,
    ),
    Benchmark(
        "routing",
        "What routing strategies and load adjusters bring, beside the figures of four papers.",
        in_all=False,
        module="stqsh.bench.papers.routing",
        has_own_command=True,
    ),
)


def find(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
        ValueError: there is none; the message lists all.
    """
    for benchmark in BENCHMARKS:
        if benchmark.name == name:
            return benchmark
    names = ", ".join(benchmark.name for benchmark in BENCHMARKS)
    raise ValueError(f"no benchmark {name!r}; there are {names}")
