"""Find the lines of a text that contain data: not blank lines, CSV headers, or a leading byte-order mark.

A socket or standard input delivers a text, and each connection may begin a new one. A CSV text may begin with
a header, which determines where the columns are. Texts are read in slices, so a line that only repeats the
header, or the names of the declared columns, is not a record wherever it occurs.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stqsh.errors import SourceError
from stqsh.sources.formats.csv_file import CsvDialect, csv_rows
from stqsh.sources.formats.record_schema import match_names
from stqsh.sources.formats.row_blocks import BOM
from stqsh.spec.stream import Options

#: A first line with at least this many names of columns is a header.
_NAMES = 2


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """Where the columns of a text are.

    Attributes:
        line: the header itself.
        places: the indices of the declared columns within a row, in their order.
        width: the number of columns in a row.
        problem: why the rows cannot be read; empty if they can.
    """

    line: bytes
    places: list[int]
    width: int
    problem: str = ""

    @staticmethod
    def of(first_line: bytes, options: Options, names: Sequence[str]) -> CsvHeader | None:
        """Return the header with which a text begins; None if its first line is data.

        >>> CsvHeader.of(b"lat,oid,speed,lon", {}, ["oid", "lon", "lat"]).places
        [1, 3, 0]
        >>> CsvHeader.of(b"7,10.5,50", {}, ["oid", "lon", "lat"])
        """
        dialect = CsvDialect.of(options)
        line = first_line.removeprefix(BOM).strip()
        try:
            fields = next(csv_rows(line.decode(errors="replace"), dialect), [])
        except csv.Error:  # such as a field of megabytes, which cannot be a name
            return None
        found = [name.strip() for name in fields]
        known = {name.lower() for name in names}
        if not dialect.header or len(known & {name.lower() for name in found}) < _NAMES:
            return None
        try:
            return CsvHeader(line, match_names(names, found, "the header"), len(found))
        except SourceError as error:
            return CsvHeader(line, [], len(found), error.message)


def lacks_only(first_line: bytes, options: Options, names: Sequence[str], column: str) -> bool:
    """Return whether a text begins with a header that has all declared columns except one.

    >>> lacks_only(b"lat,oid", {}, ["oid", "lat", "_drop"], "_drop")
    True
    """
    whole = CsvHeader.of(first_line, options, names)
    rest = CsvHeader.of(first_line, options, [name for name in names if name != column])
    return bool(whole and whole.problem and rest and not rest.problem)


def header_lines(
    options: Options, names: Sequence[str], header: CsvHeader | None = None
) -> tuple[bytes, ...]:
    """Return the headers with columns in the order of `names`, plain and quoted, and the one found.

    >>> header_lines({"separator": ";"}, ["oid", "lon"])
    (b'oid;lon', b'"oid";"lon"')
    """
    dialect = CsvDialect.of(options)
    quotes = ("", dialect.quote) if dialect.quote else ("",)
    rows = (dialect.separator.join(f"{quote}{name}{quote}" for name in names) for quote in quotes)
    return (*(row.encode() for row in rows), *([header.line] if header else []))


def data_lines(
    values: list[bytes], places: NDArray[np.int64], headers: Sequence[bytes]
) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the lines that contain data, without byte-order marks, and their places."""
    text = b"\n".join(values)
    if BOM in text:
        values = [value.removeprefix(BOM) for value in values]
    has_blank = not all(values) or any(map(bytes.isspace, values))
    if not has_blank and not any(header in text for header in headers):
        return values, places
    kept = [at for at, value in enumerate(values) if (line := value.strip()) and line not in headers]
    return [values[at] for at in kept], places[kept]
