"""The settings: name, meaning, parser, default and suggested values of each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from stqsh.units import parse_duration, parse_size

SettingValue = str | int | float | bool | None
FORMATS = ("jsonl", "csv", "tsv", "geojson", "markdown", "table", "vertical")
"""The names of result formats in FORMAT, --format and shell.format."""
SCHEMES = ("auto", "dark", "light", "none")
DURABILITY = ("process", "disk")
SHEDDING = ("off", "object", "query")
INDEXES, WINDOWS = ("auto", "forest", "chtree"), ("records", "mtindex")
"""The names of indexes of queries, and of windows."""
SIDES = (16, 32, 64, 128, 256, 512, 1024)
"""The numbers of cells per side that tables of routings may have."""
USUAL_TOLERANCE = {"mean": 1.3, "spread": 6.0, "variance": 0.1}
"""The measures of how uneven loads are, with the values above which they are uneven by default."""
MOST_LEAVES = 64
"""The most leaves of a new qttree, per slot."""
LOADS = ("cost", "records", "pairs", "star", "sstd")
"""The names of workload metrics."""
BALANCE = ("off", "auto", "shift", "splitmerge", "pm", "fm", "fg", "greedy", "border")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its name, meaning, parser and default, and the values that completion offers.

    A secret can only be set in the profile or the environment, and is never shown.
    """

    name: str
    help: str
    read: Callable[[str], SettingValue]
    default: Callable[[], SettingValue]
    choices: tuple[str, ...] = ()
    is_secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that overrides this setting."""
        return "STQSH_" + self.name.upper().replace(".", "_")

    @property
    def is_settable(self) -> bool:
        """Whether SET can change it: it is not secret, and still has an effect once a session is open."""
        return not self.is_secret and not self.name.startswith("session.")


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("some text")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"\d[\d_]*", text) or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def _flag(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError("true or false")
    return words[text.lower()]


def _tiles(text: str) -> str:
    names = all(f"{{{name}}}" in text for name in "zxy")
    if text != "off" and not (names and re.fullmatch(r"https?://[^\s\"'<>;,/]+/[^\s\"'<>;,]*", text)):
        raise ValueError("off, or an address such as https://HOST/{z}/{x}/{y}.png")
    return text


def _memory(text: str) -> str:
    if not re.fullmatch(r"\d+[kmgtKMGT]", text):
        raise ValueError("a size such as 512m or 2g")
    return text.lower()


def _size(text: str) -> str:
    parse_size(text)
    return text


def _duration(text: str) -> str:
    parse_duration(text)
    return text


def _share(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) or float(text) > 1:
        raise ValueError("a number from 0 to 1")
    return float(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
        raise ValueError("a number of at least 0")
    return float(text)


def _positive(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) or not float(text):
        raise ValueError("a number above 0")
    return float(text)


def _side(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) not in SIDES:
        raise ValueError(f"one of {', '.join(map(str, SIDES))}")
    return int(text)


def _leaves(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or not 1 <= int(text) <= MOST_LEAVES:
        raise ValueError(f"a whole number from 1 to {MOST_LEAVES}")
    return int(text)


def _budget(text: str) -> str | int:
    if re.fullmatch(r"\d[\d_]*", text) and int(text) > 0:
        return int(text)
    try:
        parse_size(text)
    except ValueError:
        raise ValueError("a number of objects of at least 1, or a size such as '64 MB'") from None
    return text


def _size_or_none(text: str) -> str:
    if re.fullmatch(r"0\s*([kmg]?b)?", text.strip(), re.IGNORECASE):
        return "0"
    try:
        parse_size(text)
    except ValueError:
        raise ValueError("0, or a size such as '64 MB'") from None
    return text


def memory_bytes() -> int:
    """Return the size of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def driver_memory() -> str:
    """Return a quarter of the machine's memory, between 1g and 4g."""
    return f"{min(4, max(1, memory_bytes() >> 32))}g"


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text.lower()

    return read


KEYS: tuple[Setting, ...] = (
    Setting(
        "spark.master",
        "the Spark master, such as local[4] or a cluster's URL",
        _text,
        lambda: f"local[{cores()},4]",
    ),
    Setting("spark.executor.memory", "memory of each executor of a cluster", _memory, lambda: None),
    Setting("spark.executor.cores", "cores of each executor of a cluster", _count, lambda: None),
    Setting(
        "spark.authenticate.secret",
        "the secret of a standalone cluster whose processes authenticate each other",
        _text,
        lambda: None,
        is_secret=True,
    ),
    Setting("engine.slots", "number of partitions (slots) of the objects; one for each core", _count, cores),
    Setting("engine.memory", "memory of the Spark driver", _memory, driver_memory),
    Setting(
        "engine.max_records_per_batch",
        "upper limit of records per batch; the actual number follows the cost of earlier batches",
        _count,
        lambda: 2_000_000,
    ),
    Setting(
        "engine.spool_bytes",
        "on one machine, payloads of at least this many bytes pass through files instead of Spark",
        _count,
        lambda: 16_384,
    ),
    Setting(
        "updates.keep",
        "size of the update log kept in full; older updates are compacted into the answers they lead to",
        _size,
        lambda: "1 GB",
        ("'1 GB'", "'10 GB'"),
    ),
    Setting(
        "sources.gone",
        "what a live stream does if its source has removed messages that it had not read: wait or skip",
        _one_of(("wait", "skip")),
        lambda: "wait",
        ("wait", "skip"),
    ),
    Setting(
        "sinks.keep",
        "size of the update log kept for a sink that lags; a sink that lags further is given up",
        _size,
        lambda: "10 GB",
        ("'10 GB'", "'100 GB'"),
    ),
    Setting(
        "sinks.wait",
        "how long a script waits at its end for sinks that make no progress",
        _duration,
        lambda: "30 s",
        ("'30 s'", "'5 min'"),
    ),
    Setting(
        "sinks.http.authorization",
        "the header Authorization of sinks that write TO HTTP",
        _text,
        lambda: None,
        is_secret=True,
    ),
    Setting(
        "durability",
        "what a session survives: process, the death of every process; disk, also a power failure",
        _one_of(DURABILITY),
        lambda: "process",
        DURABILITY,
    ),
    Setting(
        "shell.autoplay",
        "whether streams created in the shell play at once",
        _flag,
        lambda: True,
        ("true", "false"),
    ),
    Setting(
        "shell.format",
        "output format of results; auto: table on a terminal, jsonl elsewhere",
        _one_of(("auto", *FORMATS)),
        lambda: "auto",
        ("auto", *FORMATS),
    ),
    Setting(
        "shell.scheme",
        "colours of the prompt: for a dark or a light terminal, or none",
        _one_of(SCHEMES),
        lambda: "auto",
        SCHEMES,
    ),
    Setting(
        "shell.keys",
        "keys of the prompt: those of emacs or of vi",
        _one_of(("emacs", "vi")),
        lambda: "emacs",
        ("emacs", "vi"),
    ),
    Setting(
        "map.tiles",
        "where the pages of maps get tiles from, such as https://HOST/{z}/{x}/{y}.png; off: from nowhere",
        _tiles,
        lambda: "off",
        ("off",),
    ),
    Setting(
        "map.credit",
        "what the pages of maps say of their tiles, such as © OpenStreetMap contributors",
        str,
        lambda: "",
    ),
    Setting(
        "balance",
        "whether and how streams routed by space are rebalanced when the loads of slots are uneven",
        _one_of(BALANCE),
        lambda: "off",
        BALANCE,
    ),
    Setting(
        "balance.above",
        "how uneven loads may be before balance acts; by default 1.3, 6 or 0.1, by balance.measure",
        _positive,
        lambda: None,
        ("1.3", "1.5", "6"),
    ),
    Setting(
        "balance.measure",
        "how uneven loads are: mean, the largest over the mean; spread, over the smallest; or their variance",
        _one_of(tuple(USUAL_TOLERANCE)),
        lambda: "mean",
        tuple(USUAL_TOLERANCE),
    ),
    Setting(
        "balance.transfer",
        "cost of moving a query, in the time of records; a change must save more than its moves cost",
        _number,
        lambda: 0.0,
        ("0", "11"),
    ),
    Setting(
        "balance.every",
        "batches with steps between two looks of balance at the loads",
        _count,
        lambda: 8,
        ("8", "4", "32"),
    ),
    Setting(
        "balance.looks",
        "in how many looks running a stream has to be uneven before balance acts",
        _count,
        lambda: 2,
        ("2", "1", "3"),
    ),
    Setting(
        "routing.text_leaves",
        "whether REPARTITION USING qttree may split events by the words of their texts, too",
        _flag,
        lambda: False,
        ("true", "false"),
    ),
    Setting(
        "routing.cells",
        "cells per side of the grid by which a stream is repartitioned",
        _side,
        lambda: 256,
        tuple(map(str, SIDES)),
    ),
    Setting(
        "routing.load",
        "what the load of a cell is: cost, the time of slots; records; pairs with queries; star; or sstd",
        _one_of(LOADS),
        lambda: "cost",
        LOADS,
    ),
    Setting(
        "routing.recent",
        "how many of the last records the load of cells is measured by",
        _count,
        lambda: 200_000,
        ("200000", "50000", "1000000"),
    ),
    Setting(
        "routing.leaves",
        "leaves of a new qttree, per slot",
        _leaves,
        lambda: 8,
        ("8", "4", "32"),
    ),
    Setting(
        "routing.similar",
        "split a square by words if its quarters have this share of its queries on average, 0 to 1",
        _share,
        lambda: 0.5,
        ("0.5", "0.1", "0.9"),
    ),
    Setting(
        "routing.package",
        "about how many queries a change of the routing moves in one batch, counted for each slot",
        _count,
        lambda: 20_000,
        ("20000", "5000", "100000"),
    ),
    Setting(
        "index.queries",
        "what finds the queries of a record: forest, trees of words and a grid; chtree, CH-trees; auto",
        _one_of(INDEXES),
        lambda: "auto",
        INDEXES,
    ),
    Setting(
        "index.tree_queries",
        "the most queries of a CH-tree; further ones begin another tree, which each record visits, too",
        _count,
        lambda: 1_000_000,
        ("1000000", "1000"),
    ),
    Setting(
        "index.windows",
        "what groups of a WINDOW over events are computed from: its records; mtindex, kept intervals",
        _one_of(WINDOWS),
        lambda: "records",
        WINDOWS,
    ),
    Setting(
        "groups.above",
        "the number of groups in the answer of one aggregate query beyond which SHOW STATUS warns",
        _count,
        lambda: 100_000,
        ("100000", "1000000"),
    ),
    Setting(
        "shedding",
        "what is dropped when the budget is exceeded: objects that few queries need, or parts of queries",
        _one_of(SHEDDING),
        lambda: "off",
        SHEDDING,
    ),
    Setting(
        "shedding.budget",
        "upper limit for streams that RETAIN SIGNIFICANT: a number of objects, or a size",
        _budget,
        lambda: None,
        ("100000", "'64 MB'"),
    ),
    Setting(
        "shedding.keep",
        "share of the budget that shedding reduces the load to, 0 to 1",
        _share,
        lambda: 0.9,
        ("0.9", "0.8", "0.5"),
    ),
    Setting(
        "cache.factor",
        "share of the cache area kept around regions that move or grow, 0 to 1",
        _share,
        lambda: 1.0,
        ("1", "0.5", "0.25", "0"),
    ),
    Setting(
        "cache.views",
        "memory in which a client keeps views and word lists for snapshots of events; 0 for none",
        _size_or_none,
        lambda: "64 MB",
        ("'64 MB'", "'256 MB'", "0"),
    ),
    Setting(
        "cache.objects",
        "memory in which a client keeps events along the edges of cells for such snapshots; 0 for none",
        _size_or_none,
        lambda: "0",
        ("'64 MB'", "'16 MB'", "0"),
    ),
    Setting(
        "session.storage",
        "URI of the folder where sessions keep the files that workers read; the session's home by default",
        _text,
        lambda: None,
    ),
    Setting("session.home_root", "folder that contains the session homes", _text, lambda: None),
    Setting(
        "session.script",
        "script that runs first in a new session; relative to the profile that names it",
        _text,
        lambda: None,
    ),
)
"""All settings: the only list of them."""
SECRETS = frozenset(key.name for key in KEYS if key.is_secret)
"""The settings whose values are never shown."""
_SECRET_OF_SPARK = re.compile(r"secret|password|passphrase|token|access[._-]?key|credential", re.IGNORECASE)
"""A pattern of the names of Spark's secrets; Spark itself redacts nearly the same names."""


def is_secret(name: str) -> bool:
    """Return whether the value of a setting, or of one of Spark's own, is never shown.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.authenticate.secret.file")
    (True, False)
    """
    if name.startswith("spark.") and name.endswith((".file", ".enabled", ".provider")):
        return False
    return name in SECRETS or (name.startswith("spark.") and bool(_SECRET_OF_SPARK.search(name)))
