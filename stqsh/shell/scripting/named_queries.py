r"""Statements that a user stores under names: `\ns` stores one, `\n` runs it, `\nd` removes it.

They are in a file of the user, beside the history, and are the same in all sessions.
"""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path

from stqsh.errors import StqshError
from stqsh.fs import atomic_write
from stqsh.shell.user_files import state_folder

_NAME = re.compile(r"[^\W\d][\w.-]*")
_VALUE = re.compile(r"\$(\d)")


def named_queries() -> dict[str, str]:
    """Return the statements by name. Raises `StqshError` if the file cannot be read."""
    import msgspec  # slow: not before the prompt

    path = _path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise StqshError(f"cannot read {path}", hint="mend it, or remove it") from error


def keep(name: str, statement: str) -> None:
    """Store a statement under a name, replacing an earlier one. Raises `StqshError`."""
    if not _NAME.fullmatch(name):
        raise StqshError(
            f"'{name}' cannot be a name", hint=r"\ns near SELECT oid FROM taxis WHERE oid = '$1'"
        )
    _write({**named_queries(), name: statement.strip().rstrip(";").strip()})


def remove(name: str) -> None:
    """Remove a statement. Raises `StqshError` if there is none with that name."""
    known = named_queries()
    _found(name, known)
    del known[name]
    _write(known)


def statement_of(words: str) -> str:
    r"""Return the statement of `\n name value …` with its values, ready to run; "" without a name.

    `$1` to `$9` are replaced by the values, which may be in quotes.

    Raises:
        StqshError: there is no such name, or there are too few or too many values.
    """
    try:
        name, *values = shlex.split(words.rstrip("; ")) or [""]
    except ValueError:
        raise StqshError("a quotation mark is not closed", hint=r"\n near 'an id'") from None
    if not name:
        return ""
    statement = _found(name, named_queries())
    wanted = max((int(number) for number in _VALUE.findall(statement)), default=0)
    if len(values) != wanted:
        takes = f"{wanted} value{'' if wanted == 1 else 's'}" if wanted else "no values"
        raise StqshError(f"{name} takes {takes}, and {len(values)} were given", hint=f"it is {statement}")
    return _VALUE.sub(lambda number: values[int(number[1]) - 1], statement) + ";"


def _found(name: str, known: dict[str, str]) -> str:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"maybe you meant {near[0]}" if near else r"\n lists them, \ns NAME STATEMENT makes one"
    raise StqshError(f"there is no named query '{name}'", hint=hint)


def _write(known: dict[str, str]) -> None:
    import msgspec  # slow: not before the prompt

    text = msgspec.json.format(msgspec.json.encode(dict(sorted(known.items()))), indent=2)
    atomic_write(_path(), text, private=True)


def _path() -> Path:
    return state_folder() / "named_queries.json"
