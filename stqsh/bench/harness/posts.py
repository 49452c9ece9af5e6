"""Read real posts or make synthetic ones, with places and short texts, and keyword queries for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stqsh.core.texts.tokenizer import tokens

_MADE = 100_000
_VOCABULARY = 20_000
_LENGTH = 15
"""The number of terms of a synthetic text, as in reports to a city; words follow Zipf's law."""


@dataclass(frozen=True)
class PostSample:
    """Places, float64 (n, 2), and texts, from which posts are drawn repeatedly."""

    places: NDArray[np.float64]
    texts: pa.Array[Any]

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """The area of nearly all posts: x1, y1, x2, y2."""
        low, high = np.percentile(self.places, [0.5, 99.5], axis=0).tolist()
        return low[0], low[1], high[0], high[1]

    def write(self, path: Path, ticks: int, per_tick: int, seed: int = 1) -> None:
        """Write posts as one Parquet file with the columns id, x, y, ts, body; a tick is a second."""
        draw = np.random.default_rng(seed)
        writer = None
        for tick in range(ticks):
            some: Any = draw.integers(0, len(self.texts), per_tick)
            columns = {
                "id": np.arange(tick * per_tick, (tick + 1) * per_tick),
                "x": self.places[some, 0],
                "y": self.places[some, 1],
                "ts": np.full(per_tick, tick * 1_000_000, "datetime64[us]"),
                "body": self.texts.take(some),
            }
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
            writer.write_table(table)
        if writer is not None:
            writer.close()

    def queries(
        self, count: int, terms: int, side: float, seed: int = 2
    ) -> tuple[list[str], NDArray[np.float64]]:
        """Return phrases, and boxes uniform over the bounds, float64 (count, 4).

        Args:
            terms: the number of terms of a phrase, drawn as they occur; 0: one to three.
            side: the side of a box, as a share of the bounds.
        """
        draw = np.random.default_rng(seed)
        _, words = tokens(self.texts)
        most = max(3, terms)
        some: Any = draw.integers(0, len(words), most * count)
        drawn: list[Any] = words.take(some).to_pylist()
        lengths = np.full(count, terms) if terms else draw.integers(1, 4, count)
        phrases = [" ".join(drawn[most * i : most * i + length]) for i, length in enumerate(lengths.tolist())]
        x1, y1, x2, y2 = self.bounds
        size = np.array([x2 - x1, y2 - y1])
        low = np.array([x1, y1]) + draw.random((count, 2)) * (1 - side) * size
        return phrases, np.hstack([low, low + side * size])


def read_posts(pattern: str, columns: list[str]) -> PostSample:
    """Read posts from CSV files (also .gz), by the columns of x, y and the texts.

    Raises:
        FileNotFoundError: no file has such a name.
    """
    x, y, *text = columns
    found = Path(pattern)
    files = sorted(found.parent.glob(found.name))
    if not files:
        raise FileNotFoundError(f"no file is called {pattern}")
    names = list(dict.fromkeys(columns))
    convert = pa_csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string()))
    lines = pa_csv.ParseOptions(newlines_in_values=True)
    tables = [pa_csv.read_csv(file, parse_options=lines, convert_options=convert) for file in files]
    table: Any = pa.concat_tables(tables).combine_chunks()
    empty: Any = pa.scalar("")
    table = table.filter(pc.and_(pc.not_equal(table[x], empty), pc.not_equal(table[y], empty)))
    places = np.column_stack([table[axis].cast(pa.float64()).to_numpy() for axis in (x, y)])
    texts: Any = pc.binary_join_element_wise(*(table[name] for name in text), " ")
    return PostSample(places, texts.combine_chunks())


def made_posts(seed: int = 3) -> PostSample:
    """Make posts, uniform on the unit square, with words by Zipf's law."""
    draw = np.random.default_rng(seed)
    weights = 1 / np.arange(1, _VOCABULARY + 1)
    said = draw.choice(_VOCABULARY, (_MADE, _LENGTH), p=weights / weights.sum())
    words = np.array([f"w{number}" for number in range(_VOCABULARY)])
    texts = [" ".join(row) for row in words[said].tolist()]
    return PostSample(draw.random((_MADE, 2)), pa.array(texts))
