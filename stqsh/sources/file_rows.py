"""Read the rows of files for a one-time query; rows need no key, place or time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.sources.source_check import number_unit
from stqsh.sources.source_files import file_source, find_files, group_files, read_first_block, read_group
from stqsh.spec.stream import ROW, StreamSpec


class FileRows:
    """The rows of files.

    Attributes:
        set_aside: the number of unreadable records in what `batches` has read so far.
        first_letter: the dead letter of the first of them.
    """

    def __init__(self, stream: StreamSpec) -> None:
        """Accept the definition of a stream of the files; its key is `ROW`, and other roles may be empty."""
        self._stream, self._source = stream, file_source(stream)
        self.set_aside = 0
        self.first_letter: DeadLetter | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the column `ROW`, some MB at a time; at least one batch, possibly empty.

        Raises:
            SourceError: a file lacks a column of the first files, or an option is unknown.
        """
        files, layout = find_files(self._source), self._layout()
        schema = layout.schema.append(pa.field(ROW, pa.int64()))
        yield pa.RecordBatch.from_pylist([], schema)
        count = 0
        for group in group_files(files):
            for part in read_group(group, self._source, layout):
                rows = len(part.places)
                self._note(part.dead)
                numbers = pa.array(np.arange(count + 1, count + rows + 1))
                yield pa.RecordBatch.from_arrays([*part.columns, numbers], schema=schema)
                count += rows

    def _layout(self) -> RecordSchema:
        """Return the layout of the rows; the first rows determine the unit of numeric times."""
        stream = self._stream
        layout = RecordSchema(
            stream.columns,
            "",
            geodetic=not stream.planar,
            times=TimeFormat.of(self._source.options),
            places=(stream.x, stream.y) if stream.x else None,
        )
        if "timestamp" in self._source.options:
            return layout
        for file in find_files(self._source):
            first = read_first_block(file, self._source, layout)
            if first is not None:
                return number_unit(first, layout).layout
        return layout

    def _note(self, dead: Sequence[DeadLetter]) -> None:
        self.set_aside += len(dead)
        self.first_letter = self.first_letter or next(iter(dead), None)
