"""What stands in for Spark where the engine's operators run in this process: data frames of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Frame:
    """A data frame: what each of its partitions holds. It has the methods that the engine calls.

    Nothing is put off, and no task fails; partitions follow one another.
    """

    partitions: Sequence[Sequence[pa.RecordBatch]]

    @property
    def sparkSession(self) -> Frame:
        return self

    @property
    def sparkContext(self) -> type[Spread]:
        return Spread

    def repartition(self, _count: int, column: str) -> Frame:
        """A partition for each value of a column."""
        table = pa.Table.from_batches([batch for some in self.partitions for batch in some])
        found = [table.filter(pc.equal(table[column], key)) for key in pc.unique(table[column])]
        return Frame([some.to_batches() for some in found])

    def mapInArrow(self, task: Task, _schema: Any) -> Frame:
        return Frame([list(task(iter(some))) for some in self.partitions])

    def select(self, *names: str) -> Frame:
        return Frame([[batch.select(names) for batch in some] for some in self.partitions])

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches([batch for some in self.partitions for batch in some])


@dataclass(frozen=True)
class Spread:
    """Values that the driver spreads over tasks, one each."""

    values: Sequence[Any]

    @classmethod
    def parallelize(cls, values: Sequence[Any], _count: int) -> Spread:
        return cls(values)

    def flatMap(self, task: Callable[[Any], list[Any]]) -> Spread:
        return Spread([one for value in self.values for one in task(value)])

    def collect(self) -> list[Any]:
        return list(self.values)
