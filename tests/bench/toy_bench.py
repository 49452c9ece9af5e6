"""A benchmark that measures nothing: its figures are what its options say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stqsh.bench.figures import LESS, MORE, Better
from stqsh.bench.harness.drive import Say

COLUMNS = {"queries": "queries", "rate": "rate", "ms": "ms", "note": "note"}
KEY = ("queries",)
FIGURES: dict[str, Better] = {"rate": MORE, "ms": LESS}


NOW = {"rate": 100.0, "ms": 5.0}
"""What it measures: tests change it."""


@dataclass(frozen=True)
class ToyOptions:
    queries: tuple[int, ...] = field(default=(1, 2), metadata={"help": "Numbers of queries."})
    share: float | None = field(default=None, metadata={"help": "Of something."})
    note: str = field(default="all is well", metadata={"help": "Words."})
    fails: bool = field(default=False, metadata={"help": "Whether it fails."})
    objects: int = field(default=10, metadata={"help": "Moving objects."})

    def __post_init__(self) -> None:
        if self.objects < 1:
            raise ValueError("objects: one at least")


FULL = ToyOptions()
QUICK = ToyOptions(queries=(1,))


def measure(options: ToyOptions, say: Say) -> list[dict[str, Any]]:
    say("measuring")
    if options.fails:
        raise RuntimeError("the floor gave way")
    rates = [NOW["rate"] * factor for factor in (0.99, 1.0, 1.01)]
    return [{"queries": n, "rate": rates, "ms": NOW["ms"], "note": options.note} for n in options.queries]
