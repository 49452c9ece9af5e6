"""Plan how files are opened: the statements that make streams and regions of them, and the pace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import escape, glob, has_magic  # pathlib's takes no absolute pattern
from itertools import chain, count
from os.path import commonprefix
from pathlib import Path

from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.create import proposed
from stqsh.errors import CommandLineError, SourceError
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import CreateRegions, CreateStream, FileSource
from stqsh.lang.binder.bind import Bound
from stqsh.lang.errors import BindError
from stqsh.lang.printer.printer import to_sql
from stqsh.sources.formats.row_blocks import COMPRESSIONS
from stqsh.sources.inference import TABULAR, infer
from stqsh.sources.region_files import holds_regions
from stqsh.sources.source_files import format_of
from stqsh.spec.source_facts import SourceFacts, facts_lines, playing_pace
from stqsh.spec.stream import FileSourceSpec

_REPEATED = 0.5
"""Objects move if at least this share of records repeat an earlier key."""
_MOST_PATTERNS = 20
"""The maximum number of streams and regions that one call opens."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """How files are opened.

    Attributes:
        name: the name of the stream or the set of regions.
        statement: the statement that creates it, without `;`.
        notes: what was found in the files and what was guessed, one line each.
        facts: the measured content of a stream's files; None for regions, and if there are no records.
        key: the key column of a stream.
    """

    name: str
    statement: CreateStream | CreateRegions
    notes: tuple[str, ...] = ()
    facts: SourceFacts | None = None
    key: str = ""

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream."""
        return isinstance(self.statement, CreateStream)

    @property
    def text(self) -> str:
        """The statement, with its `;`."""
        return f"{to_sql(self.statement)};"

    @property
    def kind(self) -> str:
        """Its content, in a word or two."""
        if not isinstance(self.statement, CreateStream):
            return "regions"
        return "objects that move" if self.statement.kind == "moving" else "events"


@dataclass(frozen=True, slots=True)
class Opening:
    """Everything that is opened, regions first, and the streams' pace; None for the pace of event time."""

    files: tuple[OpenedFile, ...]
    pace: float | None = None

    @property
    def streams(self) -> tuple[OpenedFile, ...]:
        """The streams."""
        return tuple(one for one in self.files if one.is_stream)

    @property
    def seconds(self) -> float:
        """The approximate playing time of the streams, in seconds."""
        return max((one.facts.playing_s for one in self.streams if one.facts), default=0.0) / (self.pace or 1)


def open_files(context: StatementContext, words: Sequence[str]) -> Opening:
    """Return how files, folders and patterns are opened, without creating anything.

    Raises:
        StqshError: there are no such files, or they cannot be opened.
    """
    patterns = list(dict.fromkeys(_patterns(words)))
    if len(patterns) > _MOST_PATTERNS:
        raise CommandLineError(
            f"these files make {len(patterns)} streams, more than {_MOST_PATTERNS}",
            hint="give a pattern in quotes, such as 'folder/*.csv', for the files of one stream",
        )
    names: set[str] = set()
    found: list[OpenedFile] = []
    for pattern in patterns:
        name = _name_of(pattern, lambda name: name in names or context.knows(name))
        names.add(name)
        found.append(_opened_or_refused(context, pattern, name))
    pace = playing_pace([one.facts for one in found if one.facts])
    ordered = sorted(found, key=lambda one: one.is_stream)
    return Opening(tuple(_at_pace(one, pace) for one in ordered), pace)


def _at_pace(opened: OpenedFile, pace: float | None) -> OpenedFile:
    if pace is None or not isinstance(opened.statement, CreateStream):
        return opened
    return replace(opened, statement=replace(opened.statement, pace=pace))


# -- files and patterns --------------------------------------------------------------------------------------


def _patterns(words: Sequence[str]) -> Iterable[str]:
    """Yield a pattern for the files of each folder, ending and header, in the order of their names."""
    groups: dict[tuple[Path, str, tuple[str, ...]], list[Path]] = {}
    for word in words:
        path = Path(word).expanduser().absolute()
        if path.is_dir():
            yield _folder_pattern(path)
        elif has_magic(word) and not path.exists():
            yield str(path)
        elif _is_of_regions(path):
            yield escape(str(path))
        else:
            groups.setdefault((path.parent, _ending(path), _header(path)), []).append(path)
    for (folder, ending, _), files in groups.items():
        yield from _patterns_of(folder, ending, files)


def _folder_pattern(folder: Path) -> str:
    """Return the pattern of a folder's files with records; of several endings, the one with the most bytes.

    Raises:
        SourceError: the folder has none.
    """
    sizes: Counter[str] = Counter()
    for path in sorted(folder.iterdir()):
        if path.is_file() and _has_records(path):
            sizes[_ending(path)] += path.stat().st_size
    if not sizes:
        raise SourceError(f"no file in {folder} has a name like one with records", hint="name the files")
    [(ending, _)] = sizes.most_common(1)
    return f"{escape(str(folder))}/*{escape(ending)}"


def _patterns_of(folder: Path, ending: str, files: Sequence[Path]) -> list[str]:
    """Return one pattern that matches exactly some files, or else one pattern for each of them."""
    begin = commonprefix([path.name for path in files])  # noqa: RUF071 - a prefix of names is wanted
    pattern = f"{escape(str(folder))}/{escape(begin)}*{escape(ending)}"
    if len(files) > 1 and set(glob(pattern)) == set(map(str, files)):  # noqa: PTH207
        return [pattern]
    return [escape(str(path)) for path in files]


def _ending(path: Path) -> str:
    """Return the ending of a file's name that identifies its format, such as `.csv.gz`."""
    return Path(path.stem).suffix + path.suffix if path.suffix.lower() in COMPRESSIONS else path.suffix


def _header(path: Path) -> tuple[str, ...]:
    """Return the columns of a file of a tabular format; an empty tuple for other formats."""
    source = FileSourceSpec(str(path))
    with suppress(SourceError):  # it is reported when it is opened
        if format_of(path, source) in TABULAR:
            return tuple(name for name, _ in infer(source))
    return ()


def _has_records(path: Path) -> bool:
    try:
        format_of(path, FileSourceSpec(str(path)))
    except SourceError:
        return False
    return True


def _is_of_regions(path: Path) -> bool:
    try:
        return holds_regions(path)
    except OSError:  # it is reported when it is opened
        return False


def _name_of(pattern: str, is_taken: Callable[[str], bool]) -> str:
    """Return a free name for the files of a pattern: that of the file, or else of the folder."""
    path = Path(pattern)
    stems = (text.partition(".")[0] for text in (path.name, path.parent.name))
    words = ("_".join(re.findall(r"[a-z0-9]+", stem.lower())) for stem in stems if not has_magic(stem))
    name = next((word for word in words if word[:1].isalpha()), "records")
    numbered = (f"{name}_{number}" for number in count(2))
    return next(free for free in chain((name,), numbered) if not is_taken(free))


# -- what they hold ------------------------------------------------------------------------------------------


def _opened_or_refused(context: StatementContext, pattern: str, name: str) -> OpenedFile:
    """Return how the files of a pattern are opened.

    Raises:
        CommandLineError: they cannot be opened without further information from the user.
    """
    try:
        return _opened(context, pattern, name)
    except BindError as error:  # its position refers to a statement that the user did not type
        typed = f"CREATE EVENT STREAM {name} FROM FILE '{pattern}' KEY … LOCATION (…, …) TIME …;"
        hint = f"{error.hint}; say which is which: {typed}" if error.expected else error.hint
        raise CommandLineError(error.message, hint=hint) from error


def _opened(context: StatementContext, pattern: str, name: str) -> OpenedFile:
    """Return how the files of a pattern are opened: as regions, moving objects, or else events."""
    source = FileSource(pattern)
    if not has_magic(pattern) and _is_of_regions(Path(pattern)):
        return OpenedFile(name, CreateRegions(Name(name), source))
    moving = CreateStream("moving", Name(name), source)
    events = replace(moving, kind="event")
    try:
        bound, facts = proposed(context, moving)
    except BindError:  # for example there is no key column, which events do not need
        return _stream(events, *proposed(context, events))
    if facts is None or facts.repeats >= _REPEATED:
        return _stream(moving, bound, facts)
    return _stream(events, *proposed(context, events))


def _stream(statement: CreateStream, bound: Bound, facts: SourceFacts | None) -> OpenedFile:
    notes = (*bound.notes, *(facts_lines(facts) if facts else ()))
    return OpenedFile(statement.name.text, statement, notes, facts, bound.spec.key)
