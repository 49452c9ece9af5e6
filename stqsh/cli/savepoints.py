"""`stqsh save` and `stqsh restore`: savepoints, from the command line."""

from __future__ import annotations

import time
from importlib import import_module

from stqsh.cli.sessions import session_home
from stqsh.client.api import connect
from stqsh.client.engine_process import has_engine, stop_engine
from stqsh.client.results import Message
from stqsh.errors import CommandLineError
from stqsh.lang.printer.values import quoted
from stqsh.profile import load_profile
from stqsh.program import program
from stqsh.shell.messages import print_message
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome, made_root, named_home, sessions_root
from stqsh.storage.savepoint import read_savepoint, restore_savepoint, savepoint_blobs
from stqsh.units import counted, format_size


def name_and_uri(words: list[str], connection: str) -> tuple[str, str]:
    """Return the session's name and the URI of `NAME TO URI`, or with another word between them.

    Raises:
        CommandLineError: the words are others.
    """
    if len(words) != 3 or words[1].upper() != connection:
        command = "save" if connection == "TO" else "restore"
        raise CommandLineError(
            f"this takes a session, {connection} and a URI",
            hint=f"{program()} {command} work {connection} /backup/monday",
        )
    return words[0], words[2]


def save_session(words: list[str], profile: str | None) -> int:
    """Save a session to a URI; if its engine does not run, it runs for as long as that takes."""
    name, uri = name_and_uri(words, "TO")
    home = session_home(name, profile)
    ran = has_engine(home)
    try:
        with connect(name, profile=profile, autoplay=False) as session:
            for outcome in session.outcomes(f"SAVE TO {quoted(uri)};"):
                assert isinstance(outcome, Message), "SAVE says how far it has come"
                print_message(outcome.text)
    finally:
        if not ran:
            stop_engine(home)
    return 0


def restore_session(words: list[str], slots: int | None, profile: str | None) -> int:
    """Make a session from a savepoint, and say what it holds.

    Args:
        words: the session's name, FROM and the URI.
        slots: the number of slots; None for those that the session had.
        profile: the profile of the engine that goes on with it.
    """
    name, uri = name_and_uri(words, "FROM")
    begun, settings = time.monotonic(), load_profile(profile)
    root = made_root(sessions_root(default=settings.text("session.home_root") or None))
    home, blobs = named_home(name, root), savepoint_blobs(uri)
    savepoint = read_savepoint(blobs, uri)

    def adapt(made: SessionHome, control: ControlDb) -> None:
        # By name: the shell must not import the engine.
        rebuild = import_module("stqsh.engine.launch.slot_rebuild")
        rebuild.adapt_slots(made, control, savepoint.staged, settings, slots)

    restore_savepoint(blobs, uri, savepoint, home, adapt)
    files = counted(len(savepoint.files), "file")
    print_message(
        f"session {name} restored as of step {savepoint.staged.step:,}:"
        f" {format_size(savepoint.size)} in {files}, {time.monotonic() - begun:.1f} s"
    )
    print_message(f"{program()} --session {name} goes on with it")
    return 0
