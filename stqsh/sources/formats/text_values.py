"""Many short texts stored as one, so that parsers can process them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

#: The bytes with which a blank value may begin.
_BLANKS = np.frombuffer(b" \t\n\r\x0b\x0c", np.uint8)
_LF = 10


@dataclass(frozen=True, slots=True)
class TextValues(Sequence[bytes]):
    """Values joined into one text, with a line end between them.

    Attributes:
        text: the text.
        ends: the end of each value in it, int64 (n,).
    """

    text: bytes
    ends: NDArray[np.int64]

    @staticmethod
    def of(values: Sequence[bytes]) -> TextValues:
        """Join values.

        >>> TextValues.of([b"a", b"", b"bc"]).ends.tolist()
        [1, 2, 5]
        """
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        return TextValues(b"\n".join(values), np.cumsum(sizes + 1) - 1)

    @property
    def begins(self) -> NDArray[np.int64]:
        """The beginning of each value, int64 (n,)."""
        return np.append(0, self.ends[:-1] + 1)[: len(self.ends)]

    @property
    def are_lines(self) -> bool:
        """Whether each value is exactly one line of the text, and none is blank."""
        if not len(self.ends):
            return True
        begins, data = self.begins, np.frombuffer(self.text, np.uint8)
        if (begins == self.ends).any() or np.count_nonzero(data == _LF) >= len(self.ends):
            return False
        return not np.isin(data[begins], _BLANKS).any()

    def end_with(self, ending: bytes) -> NDArray[np.bool_]:
        """Return which values end with `ending`, bool (n,)."""
        data = np.frombuffer(self.text, np.uint8)
        found = self.ends - self.begins >= len(ending)
        for place, byte in enumerate(reversed(ending), start=1):
            found[found] = data[self.ends[found] - place] == byte
        return found

    def some(self, which: NDArray[np.bool_]) -> bytes:
        """Return the text of the values selected by `which`, bool (n,)."""
        changes = np.flatnonzero(np.diff(which, prepend=False, append=False))
        begins, ends = self.begins[changes[::2]].tolist(), self.ends[changes[1::2] - 1].tolist()
        return b"\n".join([self.text[at:stop] for at, stop in zip(begins, ends, strict=True)])

    def take(self, places: NDArray[np.int64]) -> list[bytes]:
        """Return the values at some places, int64 (k,).

        >>> TextValues.of([b"a", b"", b"bc"]).take(np.array([2, 0]))
        [b'bc', b'a']
        """
        begins, ends = self.begins[places].tolist(), self.ends[places].tolist()
        return [self.text[begin:end] for begin, end in zip(begins, ends, strict=True)]

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        """Return a value, or a slice of values."""
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        begin = int(self.ends[at - 1]) + 1 if at else 0
        return self.text[begin : int(self.ends[at])]

    def __iter__(self) -> Iterator[bytes]:
        """Yield each value."""
        begin = 0
        for end in self.ends.tolist():
            yield self.text[begin:end]
            begin = end + 1

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.ends)
