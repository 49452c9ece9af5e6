"""The options of the command line: for the interactive shell and for scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """What the command line says of a shell; `init`: whether the init file is read; `output`: as `\\o`."""

    session: str | None = None
    profile: str | None = None
    format: str | None = None
    variables: tuple[str, ...] = ()
    quiet: bool = False
    init: bool = True
    output: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What the command line said; without a `session` the script gets one of its own."""

    session: str | None = None
    profile: str | None = None
    format: str | None = None
    output: Path | None = None
    variables: tuple[str, ...] = ()
    quiet: bool = False
