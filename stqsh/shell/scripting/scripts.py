r"""Scripts: statements, and backslash commands on separate lines; `\G` instead of `;` selects `vertical`.

`\watch` may end a statement instead of its `;`. A script is parsed completely before anything is executed:
`\i` includes its script, `\set` applies from its line on, and every error is found first. All other
commands are executed in sequence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stqsh.errors import CommandLineError, StqshError
from stqsh.lang.ast import statements as ast
from stqsh.lang.ast.source import Piece, Source, Span
from stqsh.lang.errors import LangError, StatementSyntaxError
from stqsh.lang.syntax.parse import parse_piece
from stqsh.lang.syntax.split import split
from stqsh.shell.scripting.backslash_commands import find_command
from stqsh.shell.scripting.blocks import STATEMENT_END, CommandCall, StatementBlock
from stqsh.shell.scripting.variables import assign, forget, replaced
from stqsh.shell.user_files import script_text

VERTICAL = "vertical"
_BREAK = re.compile(
    r"""(?P<help>(?<![\w"'])[hH][eE][lL][pP][ \t]+\\[?\w]*[ \t]*;?)|"""
    r"""(?P<line>^[ \t]*\\(?![gG]\b|watch\b)[^\n]*)|(?P<watch>\\watch\b[^\n]*)|'[^']*'|"[^"]*"|--[^\n]*"""
    r"""|/\*.*?\*/|(?P<end>;|\\[gG]\b)""",
    re.DOTALL | re.MULTILINE,
)
# Possessive quantifiers prevent backtracking, so a match takes linear time.
_BLANK = re.compile(r"(?:\s++|--[^\n]*+|/\*.*?\*/)*+", re.DOTALL)


@dataclass(slots=True)
class _Reading:
    """The state of reading a script: its variables, and the number of statements so far."""

    variables: dict[str, str]
    count: int = 0


def read_scripts(
    sources: Sequence[tuple[str, str | None]], variables: dict[str, str]
) -> list[StatementBlock | CommandCall]:
    r"""Read scripts, (text, file) each, into blocks and calls; `variables` change with their `\set`.

    Raises:
        StatementSyntaxError: A script has a mistake; the error has its place.
        CommandLineError: A script cannot be included.
    """
    reading = _Reading(variables)
    return [step for text, file in sources for step in _read(text, file, reading, (file,) if file else ())]


def _read(
    text: str, file: str | None, reading: _Reading, trail: tuple[str, ...]
) -> Iterator[StatementBlock | CommandCall]:
    """Split a text at its commands, and parse the statements between them."""
    start = done = 0
    for match in _BREAK.finditer(text):
        is_open = not _BLANK.fullmatch(text, start, match.start())
        if match["help"] and not is_open:
            yield from _block(text, done, match.start(), file, reading)
            yield _help_call(match["help"])
            start = done = match.end()
            continue
        if match["line"] is None and match["watch"] is None:
            start = match.end() if match["end"] else start
            continue
        if is_open and match["line"]:
            raise _inside(text, file, match)
        blocks = list(_block(text, done, match.start(), file, reading))
        calls = _command(text, file, match, reading, trail)
        yield from _watched(blocks, calls) if is_open else (*blocks, *calls)
        start = done = match.end()
    yield from _block(text, done, len(text), file, reading)


def _block(text: str, start: int, end: int, file: str | None, reading: _Reading) -> Iterator[StatementBlock]:
    """Parse the statements of a part of a text without commands."""
    if _BLANK.fullmatch(text, start, end):
        return
    # Prepend as many lines as precede the part in the text, so that errors have the right line number.
    part = "\n" * text.count("\n", 0, start) + text[start:end]
    plain, uprights = _masked(replaced(part, reading.variables, file))
    pieces = split(plain, file)
    ends = [piece.offset + len(piece.text) for piece in pieces]
    statements = [parse_piece(piece) for piece in pieces]
    for upright in uprights:
        place = max((number for number, at in enumerate(ends) if at <= upright), default=None)
        if place is not None:
            statements[place] = replace(statements[place], format=VERTICAL)
    if statements:
        yield StatementBlock(statements, file, reading.count + 1)
        reading.count += len(statements)


def _watched(
    blocks: list[StatementBlock], calls: Iterable[StatementBlock | CommandCall]
) -> Iterator[StatementBlock | CommandCall]:
    r"""Yield the statements before the one that ends with `\watch`, then that one with its command."""
    [block] = blocks
    before, last = block.statements[:-1], block.statements[-1:]
    if before:
        yield replace(block, statements=before)
    for call in calls:
        assert isinstance(call, CommandCall), "a command that does something in its turn"
        yield replace(call, block=StatementBlock(last, block.file, block.number + len(before)))


def _masked(text: str) -> tuple[str, list[int]]:
    r"""Replace each `\G` and `\g` by `;`; return the text and the positions of `\G`."""
    if "\\" not in text:
        return text, []
    uprights = [match.start() for match in STATEMENT_END.finditer(text) if match["end"] == r"\G"]
    return STATEMENT_END.sub(lambda match: "; " if match["end"] else match.group(), text), uprights


def _command(
    text: str, file: str | None, match: re.Match[str], reading: _Reading, trail: tuple[str, ...]
) -> Iterator[StatementBlock | CommandCall]:
    """Read one backslash command."""
    try:
        command, argument = find_command(match.group())
        if not command.in_scripts:
            raise StqshError(rf"\{command.names[0]} works at the prompt only, not in scripts")
        if command.check is not None:
            command.check(argument)
        statements = command.expands(argument) if command.expands is not None else ""
        if statements:
            yield from _block(statements, 0, len(statements), None, reading)
        elif command.reads == "include" and argument:
            yield from _included(argument, file, reading, trail)
        elif command.reads == "unset":
            forget(reading.variables, argument)
        elif command.reads == "set" and argument:
            assign(reading.variables, _filled(argument, reading.variables))
        elif command.reads == "echo":
            yield CommandCall(command, _filled(argument, reading.variables))
        else:
            yield CommandCall(command, argument)
    except StqshError as error:
        if file is None or isinstance(error, CommandLineError | LangError):
            raise
        raise _fault(text, file, match, error.message, error.hint) from error


def _help_call(text: str) -> CommandCall:
    r"""Return the command for `HELP \command`: `\? command`."""
    command, _ = find_command("?")
    return CommandCall(command, text[text.index("\\") + 1 :].rstrip("; \t"))


def _filled(argument: str, variables: dict[str, str]) -> str:
    """Return a command's argument with its variables replaced; errors do not have a position yet."""
    try:
        return replaced(argument, variables)
    except StatementSyntaxError as error:
        raise StqshError(error.message, hint=error.hint) from error


def _included(
    name: str, file: str | None, reading: _Reading, trail: tuple[str, ...]
) -> Iterator[StatementBlock | CommandCall]:
    path = str((Path(file).parent if file else Path()) / Path(name).expanduser())
    if os.path.realpath(path) in map(os.path.realpath, trail):
        raise CommandLineError(f"{path} includes itself", hint=f"included by {', '.join(trail)}")
    yield from _read(script_text(path), path, reading, (*trail, path))


def _inside(text: str, file: str | None, match: re.Match[str]) -> Exception:
    split(text[: match.start()], file)  # raises for an open quote, which is the better explanation
    return _fault(text, file, match, "a command within a statement", "end the statement before it with ;")


def _fault(text: str, file: str | None, match: re.Match[str], message: str, hint: str | None) -> Exception:
    line = match.group()
    stripped = line.strip()
    begin = match.start() + line.index("\\")
    return StatementSyntaxError(
        message, Span(0, len(stripped)), hint=hint, piece=Piece(Source(text, file), begin, stripped)
    )


def check_read_only(statement: ast.Statement) -> None:
    r"""Raise `StqshError` for a statement that is not read-only, because `\watch` cannot repeat it."""
    kinds = (ast.Select, ast.Show, ast.ShowQuery, ast.Describe, ast.Explain, ast.Dump, ast.Help)
    if not isinstance(statement, kinds):
        name = " ".join(statement.text.split()[:2])
        raise StqshError(
            rf"\watch repeats only statements that change nothing, not {name} …",
            hint=r"SELECT COUNT(*) AS n FROM taxis \watch i=1    SHOW QUERIES \watch",
        )
