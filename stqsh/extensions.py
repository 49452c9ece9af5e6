"""Find what installed packages add to stqsh: file formats, functions and query kinds.

A package names its additions as entry points of the groups below; `stqsh/docs/extending.md` shows a whole
one. The client, the engine and its workers run the same Python, so each of them finds the same additions.
Packages are looked through once, when the first name is asked for that stqsh itself does not have.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FORMATS = "stqsh.formats"
"""File formats: the name after FORMAT, and a `stqsh.sources.formats.file_formats.FileFormat`."""
FUNCTIONS = "stqsh.functions"
"""Functions of expressions: the name, and a Python function of Arrow arrays with an annotated result."""
KINDS = "stqsh.kinds"
"""Query kinds: the name in WITH (kind => …), and a `stqsh.core.contract.query_kind.QueryKind`."""
GROUPS = {FORMATS: "format", FUNCTIONS: "function", KINDS: "kind of query"}
"""The groups, and what one addition of each is called in messages."""


class ExtensionError(Exception):
    """An addition of a package that cannot be used, and why."""


def extension_names(group: str) -> tuple[str, ...]:
    """Return the names that packages add to a group, in order."""
    return tuple(sorted(_entry_points(group)))


def find_extension(group: str, name: str) -> Any | None:
    """Return what a package adds under a name; None if no package does.

    Raises:
        ExtensionError: two packages add the name, or the package's module cannot be imported.
    """
    found = _entry_points(group).get(name)
    return None if found is None else _load(group, name)


def package_of(group: str, name: str) -> str:
    """Return the packages that add a name to a group, with their versions, as "name 1.0"."""
    points = _entry_points(group)[name]
    return " and ".join(sorted(f"{one.dist.name} {one.dist.version}" if one.dist else "?" for one in points))


@cache
def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    from importlib.metadata import entry_points  # it takes a while, and few sessions need it

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        same = found.setdefault(point.name, [])
        if point.value not in {one.value for one in same}:  # a package may be on the path twice
            same.append(point)
    return found


@cache
def _load(group: str, name: str) -> Any:
    points = _entry_points(group)[name]
    if len(points) > 1:
        raise ExtensionError(f"{package_of(group, name)} both add the {GROUPS[group]} {name!r}: remove one")
    try:
        return points[0].load()
    except Exception as error:  # whatever a module of someone else raises
        raise ExtensionError(
            f"the {GROUPS[group]} {name!r} of {package_of(group, name)} cannot be loaded: {error!r}"
        ) from error
