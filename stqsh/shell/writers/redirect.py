r"""Redirected results: `\o FILE`, `\o | COMMAND`, `--output FILE`.

The suffix of a file name may select the format (`out.csv`), also before `.gz`; `.arrow` and `.parquet` files
have whole tables. A command gets the data on its standard input, each batch as it arrives.
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
"""The programs that write compressed files; `.gz` files need none."""


_LIKE_AN_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")
"""A meaningful ending, unlike the last part of `night.2024`."""


@dataclass
class Redirect:
    """An open destination.

    Attributes:
        name: The destination as the user wrote it.
        format: The format that its name selects; None if it selects none.
        tables: The writer of a file of whole tables, for which no format can be set; else None.
        is_collection: Whether GeoJSON is written as one FeatureCollection instead of a Feature per line.
        is_command: Whether it is a command, which gets machine-readable lines unless another format is set.
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
        """Return the writer of a format, always the same object.

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
        """Complete the output.

        Raises:
            StqshError: The command has failed, or the disk is full.
        """
        try:
            if self.is_collection and self.format == "geojson":
                self.writer(self.format, one_query=False)  # without Features, write an empty collection
            if self._features is not None:
                self._features.end()
            self._end()
        except OSError as error:
            raise _write_error(self.name, error) from error


def open_outlet(words: str, format_: str | None = None) -> Redirect:
    """Open a file, or `| command`.

    Args:
        words: The file, or the command after `|`.
        format_: The format on the command line, which overrides that of the file name.

    Raises:
        CommandLineError: It cannot be opened, or its ending is not a known format.
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
    """Return the format of an ending, None if any fits; raise `CommandLineError` if it is unknown."""
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
    # Use a separate process group: Ctrl-C leaves a TAIL, and must not end the command that reads its rows.
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, process_group=0)
    stdin = process.stdin
    assert stdin is not None, "it was opened with a pipe"

    watch = _CommandWatch(process, command)

    def close() -> None:
        with suppress(BrokenPipeError):  # it reads no more; its exit code shows whether it failed
            stdin.close()
        watch.check()

    stream = _GuardedStream(stdin, (BrokenPipeError, ValueError), lambda _: watch.error())
    return Redirect(f"| {command}", None, stream, close, is_command=True)


@dataclass
class _CommandWatch:
    """Waits in a thread for the end of a command; ends one that is stopped because it wants the terminal.

    The command runs in the background, where reading or setting the terminal stops it. The shell would then
    wait forever: for its end, or for room in the pipe.
    """

    process: subprocess.Popen[bytes]
    command: str
    wants_terminal: bool = False

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="outlet", daemon=True)
        self._thread.start()

    def error(self) -> StqshError:
        """Return the error for a command that no longer reads."""
        if self.wants_terminal:
            said, hint = "wants the terminal", r"write to a file (\o FILE), and open that with it"
        else:
            said, hint = "does not read any more", r"\o goes back to the terminal"
        return StqshError(f"the command {self.command} {said}", hint=hint)

    def check(self) -> None:
        """Wait for the end. Raises `StqshError` if the command has failed or wants the terminal."""
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
    """A binary stream that converts its `caught` errors to errors for the user."""

    stream: ByteSink
    caught: tuple[type[Exception], ...]
    explain: Callable[[Exception], StqshError]

    def write(self, data: bytes) -> None:
        """Write data. Raises `StqshError`."""
        self._guard(lambda: self.stream.write(data))

    def flush(self) -> None:
        """Flush the buffer. Raises `StqshError`."""
        self._guard(self.stream.flush)

    def _guard(self, action: Callable[[], object]) -> None:
        try:
            action()
        except self.caught as error:
            raise self.explain(error) from error


def _write_error(name: str, error: Exception) -> StqshError:
    assert isinstance(error, OSError), "only these are caught"
    return StqshError(f"cannot write {name}: {file_error_reason(error)}", hint=file_error_hint(error, name))
