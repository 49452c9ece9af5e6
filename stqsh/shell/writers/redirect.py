r"""Where results go instead of standard output: `\o FILE`, `\o | COMMAND`, `--output FILE`.

The suffix of a file name may select the format (`out.csv`), also before `.gz`; `.arrow` and `.parquet` hold
whole tables. A command gets the data on its standard input, each batch as it comes.
"""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.errors import CommandLineError, StqshError
from stqsh.shell.messages import file_error_hint, file_error_reason
from stqsh.shell.writers.geojson import FeatureCollection
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import COLUMNAR, PLAIN, SUFFIXES, ByteSink, Target, check_format

if TYPE_CHECKING:
    from stqsh.shell.writers.arrow_files import ArrowFileWriter
    from stqsh.shell.writers.writer import Writer

_OTHER_COMPRESSIONS = {".zst": "zstd", ".bz2": "bzip2", ".xz": "xz", ".lz4": "lz4"}
"""The programs that write compressed files; files ending in `.gz` need none."""


_LIKE_AN_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")
"""An ending that means something, unlike the last part of `night.2024`."""


@dataclass
class Redirect:
    """An open destination.

    Attributes:
        name: The destination as the user wrote it.
        format: The format that its name asks for, None for none.
        tables: The writer of a file of whole tables, which takes no format; else None.
        is_collection: Whether GeoJSON is written as one FeatureCollection, and not a Feature a line.
        is_command: Whether it is a command, which gets lines for programs unless another format is set.
    """

    name: str
    format: str | None
    _stream: ByteSink | None
    _end: Callable[[], None]
    tables: ArrowFileWriter | None = None
    is_collection: bool = False
    is_command: bool = False
    _writers: dict[tuple[str, bool], Writer] = field(default_factory=dict, init=False)
    _features: FeatureCollection | None = field(default=None, init=False)

    def writer(self, format_: str, *, one_query: bool, asked: bool = False) -> Writer:
        """Return the writer of a format, always the same one.

        Args:
            format_: The name of the format.
            one_query: Whether only the updates of a single query can come.
            asked: Whether the statement itself named the format.

        Raises:
            StqshError: The file holds whole tables, and the statement named a format.
        """
        if self.tables is not None:
            if asked:
                raise StqshError(f"{self.name} takes whole tables, not {format_}", hint="leave FORMAT out")
            return self.tables
        assert self._stream is not None, "only whole tables do without a stream"
        key = format_, one_query
        if key not in self._writers:
            stream = self._stream
            if format_ == "geojson" and self.is_collection:
                stream = self._features = self._features or FeatureCollection(stream)
            self._writers[key] = open_writer(format_, Target(stream, one_query))
        return self._writers[key]

    def close(self) -> None:
        """Complete what was written.

        Raises:
            StqshError: The command has failed, or the disk is full.
        """
        try:
            if self.is_collection and self.format == "geojson":
                self.writer(self.format, one_query=False)  # a file without Features is a collection of none
            if self._features is not None:
                self._features.end()
            self._end()
        except OSError as error:
            raise _write_error(self.name, error) from error


def open_outlet(words: str, format_: str | None = None) -> Redirect:
    """Open a file, or `| command`.

    Args:
        words: The file, or the command behind `|`.
        format_: The format that the command line names, which wins over the file name's.

    Raises:
        CommandLineError: It cannot be opened, or its ending names no format that is known.
    """
    if words.startswith("|"):
        return _to_command(words[1:].strip())
    path = Path(words).expanduser()
    if path.suffix in _OTHER_COMPRESSIONS:
        program = _OTHER_COMPRESSIONS[path.suffix]
        raise CommandLineError(
            f"{words} would not be compressed", hint=rf"\o | {program} > {words}, or a .gz file"
        )
    if path.suffix in COLUMNAR:
        return _to_tables(words, path, format_)
    is_packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if is_packed else path.suffix
    wanted = _format_of(words, suffix) if format_ is None else check_format(format_)
    try:
        file = path.open("wb")
    except OSError as error:
        raise CommandLineError(
            f"cannot write {words}: {file_error_reason(error)}", hint=file_error_hint(error, words)
        ) from error
    packer = gzip.GzipFile(fileobj=file, mode="wb") if is_packed else None
    stream = _GuardedStream(packer or file, (OSError,), lambda error: _write_error(words, error))

    def close() -> None:
        if packer is not None:
            packer.close()
        file.close()

    return Redirect(words, wanted, stream, close, is_collection=suffix != ".geojsonl" and path.is_file())


def _format_of(name: str, suffix: str) -> str | None:
    """Return the format that an ending names, None for any; raise `CommandLineError` for another one."""
    if suffix not in SUFFIXES and suffix not in PLAIN and _LIKE_AN_ENDING.fullmatch(suffix):
        known = ", ".join((*SUFFIXES, *COLUMNAR, PLAIN[0]))
        raise CommandLineError(
            f"no format is known that is written to {name}", hint=f"endings: {known}; or say --format csv"
        )
    return SUFFIXES.get(suffix)


def _to_tables(name: str, path: Path, format_: str | None) -> Redirect:
    # Only such files need Parquet, which would delay every other script.
    from stqsh.shell.writers.arrow_files import ArrowFileWriter

    if format_ is not None:
        raise CommandLineError(f"{name} takes whole tables, not {format_}", hint="leave --format out")
    if not path.parent.is_dir():
        hint = f"there is no folder {path.parent}"
        raise CommandLineError(f"cannot write {name}: no such file or directory", hint=hint)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CommandLineError(f"cannot write {name}: permission denied", hint="name another place")
    tables = ArrowFileWriter(path)
    return Redirect(name, None, None, tables.close, tables)


def _to_command(command: str) -> Redirect:
    if not command:
        raise CommandLineError(r"\o | takes a command", hint=r"\o | gzip > out.csv.gz")
    # In a process group of its own: Ctrl-C leaves a TAIL and must not end what its rows go to.
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, process_group=0)
    stdin = process.stdin
    assert stdin is not None, "it was opened with a pipe"

    watch = _CommandWatch(process, command)

    def close() -> None:
        with suppress(BrokenPipeError):  # it had enough; its exit code says whether that was a failure
            stdin.close()
        watch.check()

    stream = _GuardedStream(stdin, (BrokenPipeError, ValueError), lambda _: watch.error())
    return Redirect(f"| {command}", None, stream, close, is_command=True)


@dataclass
class _CommandWatch:
    """Waits in a thread for the end of a command; ends one that is stopped as it asks for the terminal.

    It is in the background, where reading or setting the terminal stops it. The shell would wait for
    ever then: for its end, or for room in the pipe.
    """

    process: subprocess.Popen[bytes]
    command: str
    wants_terminal: bool = False

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="outlet", daemon=True)
        self._thread.start()

    def error(self) -> StqshError:
        """Return the error for a command that reads no more."""
        if self.wants_terminal:
            said, hint = "wants the terminal", r"write to a file (\o FILE), and open that with it"
        else:
            said, hint = "does not read any more", r"\o goes back to the terminal"
        return StqshError(f"the command {self.command} {said}", hint=hint)

    def check(self) -> None:
        """Wait for the end. Raises `StqshError` where the command has failed or wants the terminal."""
        self._thread.join()
        if self.wants_terminal:
            raise self.error()
        if self.process.returncode:
            raise StqshError(f"the command {self.command} ended with {self.process.returncode}")

    def _watch(self) -> None:
        while self.process.returncode is None:
            status = os.waitpid(self.process.pid, os.WUNTRACED)[1]
            if not os.WIFSTOPPED(status):
                self.process.returncode = os.waitstatus_to_exitcode(status)
            elif os.WSTOPSIG(status) in (signal.SIGTTIN, signal.SIGTTOU):
                self.wants_terminal = True
                os.killpg(self.process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _GuardedStream:
    """A binary stream whose errors, those `caught`, become errors for the user."""

    stream: ByteSink
    caught: tuple[type[Exception], ...]
    explain: Callable[[Exception], StqshError]

    def write(self, data: bytes) -> None:
        """Write data. Raises `StqshError`."""
        self._guard(lambda: self.stream.write(data))

    def flush(self) -> None:
        """Send what is buffered. Raises `StqshError`."""
        self._guard(self.stream.flush)

    def _guard(self, action: Callable[[], object]) -> None:
        try:
            action()
        except self.caught as error:
            raise self.explain(error) from error


def _write_error(name: str, error: Exception) -> StqshError:
    assert isinstance(error, OSError), "only these are caught"
    return StqshError(f"cannot write {name}: {file_error_reason(error)}", hint=file_error_hint(error, name))
