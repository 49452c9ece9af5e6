"""Find the extensions in installed packages: file formats, functions and query kinds.

A package declares its additions as entry points of the groups below; `stqsh/docs/extending.md` has a complete
example. The client, the engine and its workers use the same Python, so they all find the same additions.
Packages are scanned once, on the first lookup of a name that stqsh itself does not define.
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
"""The groups, and the word for one addition of each in messages."""


class ExtensionError(Exception):
    """An addition of a package cannot be used; the message has the reason."""


def extension_names(group: str) -> tuple[str, ...]:
    """Return the names that packages add to a group, in order."""
    return tuple(sorted(_entry_points(group)))


def find_extension(group: str, name: str) -> Any | None:
    """Return a package's addition with a name; None if no package has it.

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
    from importlib.metadata import entry_points  # the import is slow, and few sessions need it

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
    except Exception as error:  # a third-party module may raise anything
        raise ExtensionError(
            f"the {GROUPS[group]} {name!r} of {package_of(group, name)} cannot be loaded: {error!r}"
        ) from error
