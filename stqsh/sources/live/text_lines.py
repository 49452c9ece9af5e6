"""The lines of a text that hold data: not blank ones, headers of CSV, or the mark at its beginning.

A socket or standard input brings a text, and each connection may begin a new one. A text is read in slices,
so what is said of its first line holds for every line: one that only repeats the names of the columns is a
header, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stqsh.sources.formats.csv_file import CsvDialect
from stqsh.spec.stream import Options

_BOM = b"\xef\xbb\xbf"


def header_lines(options: Options, names: Sequence[str]) -> tuple[bytes, ...]:
    """Return the headers of columns in the order of `names`: plain, and with quotes.

    >>> header_lines({"separator": ";"}, ["oid", "lon"])
    (b'oid;lon', b'"oid";"lon"')
    """
    dialect = CsvDialect.of(options)
    quotes = ("", dialect.quote) if dialect.quote else ("",)
    rows = (dialect.separator.join(f"{quote}{name}{quote}" for name in names) for quote in quotes)
    return tuple(row.encode() for row in rows)


def data_lines(
    values: list[bytes], places: NDArray[np.int64], headers: Sequence[bytes]
) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the lines that hold data, without the mark of UTF-8, and their places."""
    text = b"\n".join(values)
    if _BOM in text:
        values = [value.removeprefix(_BOM) for value in values]
    has_blank = not all(values) or any(map(bytes.isspace, values))
    if not has_blank and not any(header in text for header in headers):
        return values, places
    kept = [at for at, value in enumerate(values) if (line := value.strip()) and line not in headers]
    return [values[at] for at in kept], places[kept]
