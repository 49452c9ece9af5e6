"""A session's settings: those of its profile, overridden by SET."""

from __future__ import annotations

import difflib
from dataclasses import replace

from msgspec import convert

from stqsh.errors import StqshError
from stqsh.profile import Profile, Value, load_profile, profile_folders
from stqsh.settings import KEYS, SettingValue
from stqsh.spec.indexes import IndexChoice
from stqsh.storage.control_log import ControlDb, get_meta, last_seq, read_settings, set_meta

_PROFILE = "profile"
_TOUCHED = "touched"


def is_touched(db: ControlDb) -> bool:
    """Return whether any statement, including SHOW and SELECT, was ever executed in the session."""
    return last_seq(db) > 0 or get_meta(db, _TOUCHED) is not None


def touch(db: ControlDb) -> None:
    """Record that a statement was executed in the session."""
    if not is_touched(db):
        set_meta(db, _TOUCHED, "yes")


def use_profile(db: ControlDb, profile: Profile) -> None:
    """Record the profile of the session, so that its engine reads the same one.

    A profile that is found by name is recorded by name, so that it is found wherever stqsh is installed
    later.
    """
    where = profile.name
    if profile.path is not None:
        is_known = profile.path.parent in profile_folders()
        where = profile.path.stem if is_known else str(profile.path.absolute())
    if get_meta(db, _PROFILE) != where:
        set_meta(db, _PROFILE, where)


def session_settings(db: ControlDb, profile: Profile | None = None) -> Profile:
    """Return the effective settings: the profile's (by default the session's own profile), overridden by SET.

    Raises:
        ProfileError: the profile cannot be read.
    """
    profile = profile or load_profile(get_meta(db, _PROFILE))
    given = {key: Value(value, "SET") for key, value in read_settings(db).items()}
    return replace(profile, values_={**profile.values_, **given})


def index_choice(settings: Profile) -> IndexChoice:
    """Return the indexes that the settings choose."""
    named = {name: settings.text(f"index.{name}") for name in ("queries", "windows")}
    return convert(named | {"tree_queries": settings.number("index.tree_queries")}, IndexChoice)


def check_setting(key: str, text: str) -> SettingValue:
    """Parse the value of a setting in SET; raise `StqshError` for an unknown key or a bad value."""
    by_name = {known.name: known for known in KEYS}
    if key not in by_name:
        near = difflib.get_close_matches(key, by_name, n=1)
        raise StqshError(
            f"unknown setting '{key}'",
            hint=f"maybe you meant {near[0]}" if near else f"known: {', '.join(by_name)}",
        )
    try:
        return by_name[key].read(text)
    except ValueError as error:
        raise StqshError(f"{key} is '{text}', expected {error}") from error
