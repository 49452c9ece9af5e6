"""The parts of a script: blocks of statements and backslash commands; also finds ends of statements."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.lang.ast.statements import Statement
    from stqsh.shell.scripting.backslash_commands import BackslashCommand
    from stqsh.shell.scripting.console import Console

STATEMENT_END = re.compile(
    r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|(?P<end>\\[gG]\b|\\watch\b[^\n]*)|(?P<open>['"]|/\*)""", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class StatementBlock:
    """Consecutive statements of one file; `number` is the position of the first one in the whole script."""

    statements: list[Statement]
    file: str | None
    number: int


@dataclass(frozen=True, slots=True)
class CommandCall:
    r"""A backslash command in a script; `block` is the statement that precedes a `\watch`."""

    command: BackslashCommand
    argument: str
    block: StatementBlock | None = None

    def run(self, console: Console) -> None:
        """Run the command. Raises what its action raises."""
        if self.block is not None:
            console.last = self.block
        self.command.action(console, self.argument)


def statements_in(steps: Iterable[StatementBlock | CommandCall]) -> list[Statement]:
    """Return the statements of a script, in order."""
    blocks = (step if isinstance(step, StatementBlock) else step.block for step in steps)
    return [statement for block in blocks if block is not None for statement in block.statements]


def is_command(text: str) -> bool:
    r"""Return whether a text begins with a backslash command; `\G`, which ends a statement, is not one."""
    return re.match(r"\s*\\(?![gG]\b)", text) is not None


def ends_vertical(text: str) -> bool:
    r"""Return whether a text ends with `\G`, `\g` or `\watch` outside strings and comments."""
    last = None
    for match in STATEMENT_END.finditer(text):
        if match["open"]:
            return False
        last = match
    return last is not None and last["end"] is not None and not text[last.end() :].strip(" \t\n;")
