"""HELP as wide as the terminal."""

from __future__ import annotations

import shutil


def help_text(topic: str = "") -> str:
    """What HELP answers, see `stqsh.client.statements.help`."""
    from stqsh.client.statements import help

    return help.help_text(topic, shutil.get_terminal_size().columns)


def two_columns(rows: list[tuple[str, str]]) -> str:
    """Words and their meanings side by side."""
    from stqsh.client.statements import help

    return help.two_columns(rows, shutil.get_terminal_size().columns)
