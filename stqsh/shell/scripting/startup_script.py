"""The script that a profile lets a new session begin with (its setting session.script)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from stqsh.client.api import Session


def profile_script(profile: str | None) -> Path | None:
    """The script that the profile asked for names; None where it names none.

    One that cannot be read names none either: opening the session says what is wrong with it.
    """
    if profile is None and not {"STQSH_PROFILE", "STQSH_SESSION_SCRIPT"} & set(os.environ):
        return None  # the usual profile names none, and reading it takes time that the prompt has not
    from stqsh.errors import ProfileError
    from stqsh.profile import load_profile

    try:
        return load_profile(profile).script
    except ProfileError:
        return None


def is_new(session: Session) -> bool:
    """Whether nothing was ever asked of the session."""
    from stqsh.storage.control_log import last_seq

    return last_seq(session.link.db) == 0
