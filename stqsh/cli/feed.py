"""`stqsh feed`: the records of a file, or of standard input as they come, for a stream or a query stream."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from stqsh.cli.sessions import session_home
from stqsh.client.api import connect
from stqsh.client.feed import FeedCount, feed_arriving
from stqsh.errors import CommandLineError
from stqsh.lang.errors import near, or_list
from stqsh.shell.messages import print_message
from stqsh.shell.terminal.screen import open_screen
from stqsh.sources.fed_records import ArrivingBytes
from stqsh.units import group_digits

_FORMATS = {"csv": "csv", "json": "jsonl", "jsonl": "jsonl", "parquet": "parquet", "geojson": "geojson"}


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The words and options of `stqsh feed`; without a file, standard input."""

    stream: str
    file: str | None = None
    format: str | None = None
    session: str | None = None
    profile: str | None = None


def run_feed(options: FeedOptions) -> int:
    """Feed a stream, and say how many records it has got.

    Raises:
        StqshError: the stream takes no records, or the data cannot be read.
    """
    form, origin = _format(options.format), _origin(options.file)
    home = session_home(options.session, options.profile)
    screen = open_screen(sys.stderr)
    count = FeedCount()

    def show(fed: FeedCount) -> None:
        nonlocal count
        count = fed
        screen.status(f"feeding {options.stream}  {group_digits(fed.records)} records")

    with connect(home.name, profile=options.profile) as session:
        try:
            feed_arriving(session, options.stream, origin, form, show)
        except BaseException:
            screen.close()
            if count.records or count.dead:
                print_message(f"{_taken_text(count, options.stream)}, and no more")
            raise
    screen.close()
    print_message(_taken_text(count, options.stream))
    return 0


def _taken_text(count: FeedCount, stream: str) -> str:
    records = "1 record" if count.records == 1 else f"{group_digits(count.records)} records"
    if not count.dead:
        return f"{records} fed to {stream}"
    dead = "1 could" if count.dead == 1 else f"{group_digits(count.dead)} could"
    return f"{records} fed to {stream}; {dead} not be read: SHOW DEAD LETTERS says why"


def _format(given: str | None) -> str | None:
    """Return the format of an option. Raises `CommandLineError` for one that files do not have."""
    if given is None:
        return None
    found = _FORMATS.get(given.lower())
    if found is None:
        close = near(given, _FORMATS)
        hint = f"maybe you meant {close}" if close else f"there are {or_list(tuple(_FORMATS))}"
        raise CommandLineError(f"unknown format '{given}'", hint=hint)
    return found


def _origin(file: str | None) -> Path | ArrivingBytes:
    if file is None or file == "-":
        if sys.stdin.isatty():
            print_message("reading from the keyboard; Ctrl-D ends it")
        return ArrivingBytes(sys.stdin.fileno())
    path = Path(file)
    if path.is_dir():
        raise CommandLineError(f"{file} is a folder", hint="name a file in it, or give standard input")
    if not path.is_file():
        raise CommandLineError(f"there is no file {file}", hint="name one, or give standard input: < FILE")
    return path
