"""The interface of live sources: positions, which are part of an offset, and slices, which workers read.

A position states the next place to read in each part of a source: a partition of Kafka; a spool of lines has
only one part. Positions are stored only in the engine's offsets, so a repeated batch reads the same messages.
The planner polls a `LiveSource` often, and it returns immediately. A worker opens a `MessageReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from stqsh.errors import SourceError
from stqsh.fs import atomic_write

if TYPE_CHECKING:
    from stqsh.sources.live.decoding import Messages

Position: TypeAlias = "dict[str, int]"
"""The next place to read in each part, by the part's name."""


_PROBLEM = "problem"
#: A slice may exceed an equal share by this factor.
_UNEVEN = 1.25


class SourceAwayError(SourceError):
    """A source does not answer at the moment."""


class RecordsGoneError(SourceError):
    """A source no longer has messages that have not been read yet."""


class MessageRange(NamedTuple):
    """Places `start <= place < stop` of a part."""

    part: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of places."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source, as the planner sees it.

    Attributes:
        first: the first place that can be read, by part.
        ends: the place after the last one, by part.
        ended: whether no more messages will arrive.
        message: a note for the user, such as that a broker does not answer; "" if there is no problem.
    """

    first: Mapping[str, int]
    ends: Mapping[str, int]
    ended: bool = False
    message: str = ""


def write_problem(spool: Path, text: str) -> None:
    """Record beside a spool why no input can arrive, if there is room for it; "" if there is no problem."""
    path = spool / _PROBLEM
    with suppress(OSError):
        if text:
            atomic_write(path, text.encode(), private=True)
        else:
            path.unlink(missing_ok=True)


def read_problem(spool: Path) -> str:
    """Return the last text that `write_problem` recorded."""
    try:
        return (spool / _PROBLEM).read_text("utf-8")
    except FileNotFoundError:
        return ""


class LiveSource(Protocol):
    """A source in the planner."""

    def state(self) -> SourceState:
        """Return the state of the source, without waiting."""

    def begin(self) -> Position | None:
        """Return the position at which the stream begins; None while it is unknown."""

    def close(self) -> None:
        """Release threads and connections."""


class MessageReader(Protocol):
    """A source in a worker."""

    def read(self, wanted: MessageRange) -> Iterator[Messages]:
        """Yield the messages of a range, in order; a repeated call yields the same ones.

        Raises:
            RecordsGoneError: some of them are gone.
            SourceAwayError: the source does not answer.
        """


def part_order(part: str) -> tuple[str, int]:
    """Return the sort key of a part: topic, then the number of the partition.

    >>> sorted(["b/2", "b/10", "a/3"], key=part_order)
    ['a/3', 'b/2', 'b/10']
    """
    topic, _, number = part.rpartition("/")
    return topic, int(number) if number.isdigit() else 0


def advance(position: Position, state: SourceState, room: int) -> Position:
    """Return the position after the next batch: the end of each part, or a fair share of `room` for each.

    Parts that the position lacks are not read; see `with_new_parts`.

    >>> advance({"t/0": 5}, SourceState({}, {"t/0": 9, "t/1": 3}), 100)
    {'t/0': 9}
    >>> advance({"t/0": 0, "t/1": 0}, SourceState({}, {"t/0": 300, "t/1": 100}), 200)
    {'t/0': 150, 't/1': 50}
    """
    left = {part: max(0, state.ends.get(part, next_) - next_) for part, next_ in position.items()}
    total = sum(left.values())
    if total <= room:
        taken = left
    else:
        taken = {part: max(1, count * room // total) if count else 0 for part, count in left.items()}
    return {part: position[part] + taken[part] for part in sorted(position, key=part_order)}


def with_new_parts(position: Position, state: SourceState) -> Position:
    """Add the parts that a position lacks, each at its first place."""
    new = {part: state.first.get(part, 0) for part in state.ends if part not in position}
    return {**position, **new} if new else position


def gone(position: Position, state: SourceState) -> list[MessageRange]:
    """Return the places that are still to be read but no longer exist."""
    found = (MessageRange(part, start, state.first.get(part, start)) for part, start in position.items())
    return sorted((each for each in found if each.size > 0), key=lambda each: part_order(each.part))


def truncated(position: Position, state: SourceState) -> list[str]:
    """Return the parts that end before a position, as after a topic was truncated or created again.

    >>> truncated({"t/0": 500, "t/1": 7}, SourceState({}, {"t/0": 100, "t/1": 7}))
    ['t/0']
    """
    found = (part for part, at in position.items() if state.ends.get(part, at) < at)
    return sorted(found, key=part_order)


def ranges(first: Position, last: Position) -> list[MessageRange]:
    """Return the ranges between two positions, in the order of parts; new parts begin with the last one."""
    found = (MessageRange(part, first.get(part, stop), stop) for part, stop in last.items())
    return sorted((each for each in found if each.size > 0), key=lambda each: part_order(each.part))


def split(wanted: Iterable[MessageRange], pieces: int) -> list[list[MessageRange]]:
    """Cut ranges, in order, into at most `pieces` slices of about equal size.

    Cuts are made between parts unless that makes a slice much larger, because continuing in a part costs a
    reader nothing, while beginning within one is expensive.

    >>> split([MessageRange("t/0", 0, 5), MessageRange("t/1", 0, 4)], 2)
    [[MessageRange(part='t/0', start=0, stop=5)], [MessageRange(part='t/1', start=0, stop=4)]]
    >>> split([MessageRange("t/0", 0, 6), MessageRange("t/1", 0, 2)], 2)
    [[MessageRange(part='t/0', start=0, stop=4)], [MessageRange(part='t/0', start=4, stop=6), \
MessageRange(part='t/1', start=0, stop=2)]]
    """
    wanted = list(wanted)
    ends = list(accumulate(each.size for each in wanted))
    total = ends[-1] if ends else 0
    pieces = max(1, min(pieces, total))
    exact = [total * piece // pieces for piece in range(pieces + 1)]
    cuts = [0, *(min(ends, key=lambda end: abs(end - at)) for at in exact[1:-1]), total]
    if max(after - before for before, after in pairwise(cuts)) > _UNEVEN * total / pieces:
        cuts = exact
    slices: list[list[MessageRange]] = [[] for _ in range(pieces)]
    for (part, start, stop), end in zip(wanted, ends, strict=True):
        first = end - (stop - start)
        for piece, (low, high) in enumerate(pairwise(cuts)):
            cut = MessageRange(part, max(start, start + low - first), min(stop, start + high - first))
            if cut.size > 0:
                slices[piece].append(cut)
    return [piece for piece in slices if piece]
