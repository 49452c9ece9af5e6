"""Tables of a slot: named columns in the slot's state, and the relations that their numbers refer to.

A table declares its arrays once, as attributes of its class. Numbers may refer to a stream's objects, to the
strings of its dictionary, or to its terms; `renumber` updates all such arrays when objects, strings or terms
are renumbered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from stqsh.arrays import Array
from stqsh.core.state.slot_state import SlotState

Relation: TypeAlias = Literal["objects", "strings", "terms"]
"""The relations that numbers may refer to: a stream's objects, its strings, or its terms."""


class TableVersionError(ValueError):
    """The version of a table's arrays is one that this stqsh cannot read."""

    def __init__(self, prefix: str, found: int, known: int) -> None:
        super().__init__(
            f"the state of {prefix} has version {found}, and this stqsh reads version {known}:"
            " go on with the stqsh that wrote it"
        )


@dataclass
class ArraySpec:
    """One array of a table; as an attribute of a table instance it evaluates to the array itself.

    Attributes:
        dtype: The type of its elements.
        refers_to: The relation that elements are numbers of; -1 refers to nothing.
        derived_from: The relation for whose members the array has one element each; the array may be shorter.
        width: The number of elements per row.
        length: The initial length of an array that is not a column; None for columns.
    """

    dtype: npt.DTypeLike
    refers_to: Relation | None = None
    derived_from: Relation | None = None
    width: int = 1
    length: int | None = None
    _name: str = field(default="", init=False)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, table: None, owner: type) -> ArraySpec: ...

    @overload
    def __get__(self, table: StateTable, owner: type) -> Array: ...

    def __get__(self, table: StateTable | None, owner: type) -> ArraySpec | Array:
        return self if table is None else table.array(self._name)


class Alias:
    """Another name of an array, for rows in which it has another meaning."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, table: StateTable, owner: type) -> Array:
        return table.array(self._name)


Specs: TypeAlias = Mapping[str, ArraySpec]

_NO_ARRAY = ArraySpec(np.uint8)


class StateTable:
    """Arrays `{prefix}/{name}` of a slot; missing arrays are created.

    All columns have the same number of rows. Subclasses declare arrays as attributes; the first attribute is
    a column:

    >>> class Visits(StateTable):
    ...     query = ArraySpec(np.int64)
    ...     obj = ArraySpec(np.int32, "objects")
    >>> visits = Visits(SlotState.fresh(0), "s1/visits")
    >>> visits.append(query=[7, 7], obj=[0, 1]).tolist()
    [0, 1]
    >>> visits.obj.tolist()
    [0, 1]
    """

    specs: ClassVar[Specs] = {}
    version: ClassVar[int] = 1
    """The version of the arrays' meaning. A new array needs no new version, because it is zero."""

    def __init_subclass__(cls) -> None:
        own = {name: spec for name, spec in vars(cls).items() if isinstance(spec, ArraySpec)}
        inherited = [base.specs for base in cls.__bases__ if issubclass(base, StateTable)]
        cls.specs = {name: spec for specs in (*inherited, own) for name, spec in specs.items()}

    def __init__(self, state: SlotState, prefix: str, more: Specs | None = None) -> None:
        """Open the table, create missing arrays, and upgrade those of an older version.

        Args:
            state: the slot's state.
            prefix: the beginning of the arrays' names.
            more: arrays known only at run time.

        Raises:
            TableVersionError: no upgrade leads from the arrays' version to this one.
        """
        self.state, self.prefix = state, prefix
        self._specs = {**self.specs, **more} if more else self.specs
        rows = _stored_rows(state, prefix, self._specs)
        missing = [name for name in self._specs if f"{prefix}/{name}" not in state]
        known = state.header.get("versions", {})
        found = known.get(prefix, 1) if len(missing) < len(self._specs) else self.version
        if found > self.version:
            raise TableVersionError(prefix, found, self.version)
        for name in missing:
            _create(state, f"{prefix}/{name}", self._specs[name], rows)
        if found != self.version:
            self.upgrade(found)
        if self.version > 1:
            state.entry("versions")[prefix] = self.version

    def upgrade(self, version: int) -> None:
        """Upgrade the arrays from an older version to this one; a class with a later version defines how.

        Raises:
            TableVersionError: no upgrade leads from that version to this one.
        """
        raise TableVersionError(self.prefix, version, self.version)

    def __len__(self) -> int:
        return _stored_rows(self.state, self.prefix, self._specs)

    def array(self, name: str) -> Array:
        """Return an array by name, as a view that is valid until the array is resized."""
        return self.state.array(f"{self.prefix}/{name}")

    def append(self, **columns: npt.ArrayLike) -> Array:
        """Append rows and return their positions; columns without values are filled with zeros."""
        before = _stored_rows(self.state, self.prefix, self._specs)
        for name, values in columns.items():
            self.state.append(f"{self.prefix}/{name}", values)
        rows = _stored_rows(self.state, self.prefix, self._specs)
        for name, spec in _columns(self._specs):
            if name not in columns:
                self.state.resize(f"{self.prefix}/{name}", rows * spec.width)
        return np.arange(before, rows)

    def resize(self, rows: int) -> None:
        """Change the number of rows; new ones are zero."""
        for name, spec in _columns(self._specs):
            self.state.resize(f"{self.prefix}/{name}", rows * spec.width)

    def store(self, **columns: Array) -> None:
        """Replace the content of arrays."""
        for name, values in columns.items():
            self.state.replace(f"{self.prefix}/{name}", values.astype(self._specs[name].dtype, copy=False))

    def grow(self, **values: npt.ArrayLike) -> None:
        """Append elements to arrays that are not columns."""
        for name, some in values.items():
            self.state.append(f"{self.prefix}/{name}", some)

    def keep(self, stay: Array) -> None:
        """Keep only the rows marked in `stay`, bool (rows,); the positions of later rows change."""
        if stay.all():
            return
        for name, spec in _columns(self._specs):
            chosen = stay if spec.width == 1 else np.repeat(stay, spec.width)
            self.state.shrink(f"{self.prefix}/{name}", self.array(name)[chosen])

    def remove(self, positions: Array) -> None:
        """Remove the rows at these positions; the positions of later rows change."""
        stay = np.ones(len(self), np.bool_)
        stay[positions] = False
        self.keep(stay)

    def pop(self, chosen: Array) -> list[Array]:
        """Remove the chosen rows, bool (rows,), and return their columns in order, all of width 1."""
        popped = [self.array(name)[chosen] for name, _ in _columns(self._specs)]
        self.keep(~chosen)
        return popped


def _stored_rows(state: SlotState, prefix: str, specs: Specs) -> int:
    """Return the number of rows of a table's arrays, from the first array."""
    name, spec = next(iter(specs.items()), ("", _NO_ARRAY))
    return len(state.array(f"{prefix}/{name}")) // spec.width if f"{prefix}/{name}" in state else 0


def _columns(specs: Specs) -> list[tuple[str, ArraySpec]]:
    """Return the declarations of arrays that are columns."""
    return [(name, spec) for name, spec in specs.items() if spec.length is None]


def _create(state: SlotState, name: str, spec: ArraySpec, rows: int) -> None:
    """Create an array for a table with a number of rows."""
    state.create(name, spec.dtype, rows * spec.width if spec.length is None else spec.length)
    if spec.refers_to:
        add_reference(state, name, spec.refers_to)
    if spec.derived_from:
        add_derived(state, name, spec.derived_from)


def add_reference(state: SlotState, name: str, relation: Relation) -> None:
    """Declare that the elements of an array `s{stream}/…` are numbers of a relation; -1 is none."""
    state.entry("references")[name] = relation


def add_derived(state: SlotState, name: str, relation: Relation) -> None:
    """Declare that an array, or a folder of arrays, of `s{stream}/…` is derived from a relation.

    An array has one element for each string or term, or is shorter. A folder is derived from the stream's
    objects: it is released when they are renumbered, and its owner rebuilds it.
    """
    state.entry("derived")[name] = relation


def references(state: SlotState, relation: Relation, stream: int) -> list[str]:
    """Return the names of a stream's arrays whose elements are numbers of a relation."""
    return _declared(state, "references", relation, stream)


def derived(state: SlotState, relation: Relation, stream: int) -> list[str]:
    """Return the names of a stream's arrays or folders that are derived from a relation."""
    return _declared(state, "derived", relation, stream)


def _declared(state: SlotState, entry: str, relation: Relation, stream: int) -> list[str]:
    declared = state.entry(entry).items()
    return [name for name, found in declared if found == relation and name.startswith(f"s{stream}/")]


def referenced(state: SlotState, relation: Relation, stream: int, count: int) -> Array:
    """Return which of the `count` members of a relation any array refers to; bool (count,)."""
    used = np.zeros(count, np.bool_)
    for name in references(state, relation, stream):
        numbers = state.array(name)
        used[numbers[numbers >= 0]] = True
    return used


def renumber(state: SlotState, relation: Relation, stream: int, stay: Array) -> None:
    """Renumber references so that only the members marked in `stay`, bool (count,), keep a number.

    Members stay in order; references to removed members become -1.
    """
    number = np.append(np.where(stay, np.cumsum(stay) - 1, -1), -1).astype(np.int32)
    for name in references(state, relation, stream):
        numbers = state.array(name)
        numbers[:] = number[numbers]
