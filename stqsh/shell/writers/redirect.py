r"""Where results go instead of standard output: `\o FILE`, `\o | COMMAND`, `--output FILE`.

A file's name may say its format (`out.csv`); `.arrow` and `.parquet` are tables as a whole. A command gets
the data on its standard input, each batch as it comes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from stqsh.errors import CommandLineError, StqshError
from stqsh.shell.messages import file_error_hint, file_error_reason
from stqsh.shell.writers.formats import COLUMNAR, SUFFIXES, check_format, open_writer
from stqsh.shell.writers.writer import Target

if TYPE_CHECKING:
    from stqsh.shell.writers.arrow_files import ArrowFileWriter
    from stqsh.shell.writers.writer import Writer


class Redirect:
    """An open destination. `name` is what the user called it, `format` what its name asks for, if anything.

    `whole`: it takes tables as a whole and no format.
    """

    def __init__(
        self, name: str, stream: IO[bytes] | None, format_: str | None, end: Callable[[], None]
    ) -> None:
        self.name = name
        self.format = format_
        self.whole: ArrowFileWriter | None = None
        self._stream = stream
        self._end = end
        self._writers: dict[tuple[str, bool], Writer] = {}

    def writer(self, format_: str, *, one_query: bool, asked: bool = False) -> Writer:
        """The writer of a format, always the same one; `asked`: the statement itself named the format.

        Raises `StqshError` where the file is a table as a whole and another format was asked for.
        """
        if self.whole is not None:
            if asked:
                raise StqshError(f"{self.name} takes whole tables, not {format_}", hint="leave FORMAT out")
            return self.whole
        assert self._stream is not None, "only whole tables do without a stream"
        key = format_, one_query
        if key not in self._writers:
            self._writers[key] = open_writer(format_, Target(self._stream, one_query))
        return self._writers[key]

    def close(self) -> None:
        """Complete what was written. Raises `StqshError` where a command has failed or a disk is full."""
        try:
            self._end()
        except OSError as error:
            raise _unwritten(self.name, error) from error


def open_outlet(words: str, format_: str | None = None) -> Redirect:
    """Open a file, or `| command`. Raises `CommandLineError` where that cannot be.

    `format_` is the one that the command line says, which comes before the one in the file's name.
    """
    if words.startswith("|"):
        return _to_command(words[1:].strip())
    path = Path(words).expanduser()
    if path.suffix in COLUMNAR:
        return _to_tables(words, path, format_)
    try:
        file = path.open("wb")
    except OSError as error:
        raise CommandLineError(
            f"cannot write {words}: {file_error_reason(error)}", hint=file_error_hint(error, words)
        ) from error
    wanted = SUFFIXES.get(path.suffix) if format_ is None else check_format(format_)
    return Redirect(words, cast("IO[bytes]", _File(file, words)), wanted, file.close)


def _to_tables(name: str, path: Path, format_: str | None) -> Redirect:
    from stqsh.shell.writers.arrow_files import ArrowFileWriter

    if format_ is not None:
        raise CommandLineError(f"{name} takes whole tables, not {format_}", hint="leave --format out")
    if not path.parent.is_dir():
        hint = f"there is no folder {path.parent}"
        raise CommandLineError(f"cannot write {name}: no such file or directory", hint=hint)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CommandLineError(f"cannot write {name}: permission denied", hint="name another place")
    tables = ArrowFileWriter(path)
    outlet = Redirect(name, None, None, tables.close)
    outlet.whole = tables
    return outlet


def _to_command(command: str) -> Redirect:
    if not command:
        raise CommandLineError(r"\o | takes a command", hint=r"\o | gzip > out.csv.gz")
    # In a process group of its own: Ctrl-C leaves a TAIL and must not end what its rows go to.
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, process_group=0)
    pipe = _Pipe(process, command)
    return Redirect(f"| {command}", cast("IO[bytes]", pipe), None, pipe.close)


class _File:
    """A file, as far as a `Target` needs a stream; a full disk is an error that the user is told."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name

    def write(self, data: bytes) -> None:
        """Write; raises `StqshError`."""
        self._guard(lambda: self._file.write(data))

    def flush(self) -> None:
        """Push everything through; raises `StqshError`."""
        self._guard(self._file.flush)

    def _guard(self, act: Callable[[], Any]) -> None:
        try:
            act()
        except OSError as error:
            raise _unwritten(self._name, error) from error


class _Pipe:
    """A command's standard input, as far as a `Target` needs a stream."""

    def __init__(self, process: subprocess.Popen[bytes], command: str) -> None:
        self._process = process
        self._command = command

    def write(self, data: bytes) -> None:
        """Hand data over; raises `StqshError` where the command has ended."""
        self._guard(lambda stream: stream.write(data))

    def flush(self) -> None:
        """Push everything through; raises as `write`."""
        self._guard(lambda stream: stream.flush())

    def close(self) -> None:
        """Let the command end; raises `StqshError` where it failed."""
        stream = self._process.stdin
        try:
            if stream is not None:
                stream.close()
        except BrokenPipeError:
            pass  # it had enough, and its exit code says whether that was a failure
        code = self._process.wait()
        if code:
            raise StqshError(f"the command {self._command} ended with {code}")

    def _guard(self, act: Callable[[IO[bytes]], Any]) -> None:
        assert self._process.stdin is not None, "it was opened with a pipe"
        try:
            act(self._process.stdin)
        except (BrokenPipeError, ValueError) as error:
            raise StqshError(
                f"the command {self._command} takes no more", hint=r"\o goes back to the terminal"
            ) from error


def _unwritten(name: str, error: OSError) -> StqshError:
    return StqshError(f"cannot write {name}: {file_error_reason(error)}", hint=file_error_hint(error, name))
