"""HELP as wide as the terminal."""

from __future__ import annotations

import shutil


def help_text(topic: str = "") -> str:
    """What HELP answers, see `stqsh.session.manual`."""
    from stqsh.session import manual

    return manual.help_text(topic, shutil.get_terminal_size().columns)


def two_columns(rows: list[tuple[str, str]]) -> str:
    """Words and their meanings side by side."""
    from stqsh.session import manual

    return manual.two_columns(rows, shutil.get_terminal_size().columns)
