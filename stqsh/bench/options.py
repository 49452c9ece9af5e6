"""Make the command line options of a benchmark from the fields of its options."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_SCALARS: Mapping[type, Callable[[str], Any]] = {
    int: lambda text: int(text.replace("_", "")),
    float: float,
    str: str,
}
_EXPECTED = {int: "whole numbers", float: "numbers", str: "words"}
_METAVARS = {int: "NUMBER", float: "NUMBER", str: "TEXT"}


def option(default: T, text: str) -> T:
    """Declare a field of a dataclass of options with its default and its help."""
    declared: Any = field(default=default, metadata={"help": text})
    return declared  # type: ignore[no-any-return]  # a dataclass makes it the default


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of the command line.

    Attributes:
        name: the name of the field.
        help: its help, with the quick and the full default.
        kind: int, float, str or bool.
        is_list: whether it takes several values, separated by commas.
    """

    name: str
    help: str
    kind: type
    is_list: bool

    @property
    def flag(self) -> str:
        """The option as it is typed, such as --per-tick."""
        return "--" + self.name.replace("_", "-")

    @property
    def metavar(self) -> str:
        """The placeholder of the value in the help."""
        word = _METAVARS.get(self.kind, "")
        return f"{word},…" if self.is_list else word

    def read(self, text: str) -> Any:
        """Read a value.

        Raises:
            ValueError: the option does not take this value.
        """
        convert = _SCALARS[self.kind]
        try:
            return tuple(convert(part) for part in text.split(",")) if self.is_list else convert(text)
        except ValueError:
            how = f"{_EXPECTED[self.kind]} with commas" if self.is_list else _EXPECTED[self.kind]
            raise ValueError(f"{text!r} is not {how}") from None


def choices(full: Any, quick: Any) -> list[Choice]:
    """Return an option for each field of the options of a benchmark, in their full and their quick sizes.

    Raises:
        TypeError: the command line has no way to write the type of a field.
    """
    hints = get_type_hints(type(full))
    found = []
    for item in fields(full):
        kind, is_list = _kind(hints[item.name], f"{full.__module__}.{item.name}")
        defaults = _default(getattr(quick, item.name), getattr(full, item.name))
        words = f"{item.metadata.get('help', '')} {defaults}".strip()
        found.append(Choice(item.name, words, kind, is_list))
    return found


def chosen(base: Any, given: Mapping[str, Any]) -> Any:
    """Return `base` with the given values; None: not given. Raises `ValueError` as `base`'s class does."""
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def _kind(hint: Any, where: str) -> tuple[type, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        [hint] = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        return _kind(get_args(hint)[0], where)[0], True
    if hint is bool or hint in _SCALARS:
        return hint, False
    raise TypeError(
        f"{where}: the command line cannot say {hint}; take int, float, str, bool or a tuple of them"
    )


def _default(quick: Any, full: Any) -> str:
    if quick == full:
        return f"({said(full)})" if said(full) else ""
    return f"({said(quick)}; --full: {said(full)})"


def said(value: Any) -> str:
    """Return an option's value as it is typed."""
    if value is None:
        return ""
    return ",".join(map(said, value)) if isinstance(value, tuple) else str(value)
