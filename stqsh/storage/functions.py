"""The functions that are registered with a session; queries carry the code of those that they call."""

from __future__ import annotations

import msgspec

from stqsh.spec.function import FunctionSpec
from stqsh.storage.control_log import ControlDb, get_meta, set_meta

_KEY = "functions"


def known_functions(db: ControlDb) -> dict[str, FunctionSpec]:
    """Return the functions of a session by name, in upper case."""
    return msgspec.json.decode(get_meta(db, _KEY) or "{}", type=dict[str, FunctionSpec])


def add_function(db: ControlDb, spec: FunctionSpec) -> None:
    """Add a function, or replace the one of that name."""
    with db.transaction():
        functions = known_functions(db) | {spec.name: spec}
        set_meta(db, _KEY, msgspec.json.encode(functions).decode())
