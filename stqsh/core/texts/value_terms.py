"""Values of columns as terms: `topic = 'fire'` asks for one more term of a record.

A query that requires a column value is then found like one that requires a word (STAR section 5.1 uses a
level of its CH-tree for such predicates). A term is spelled as "=" and a hash of column and value. Words
consist of letters and digits, so no word equals such a term. Values with equal hashes share a term; queries
test the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.index.hashing import hash_integers, hash_keys
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_sets import SPELLED, spell_hashes
from stqsh.core.state.interner import Interner, Keys
from stqsh.spec.expression import ColumnExpr, CompareExpr, Expr, LiteralExpr, Value, conjuncts

_INTEGERS, _DOUBLES = {"INT", "BIGINT"}, {"FLOAT", "DOUBLE"}


class ValueColumn(NamedTuple):
    """A column whose values are terms.

    Attributes:
        name: The column.
        kind: The type in which values are compared: STRING, BIGINT or DOUBLE.
    """

    name: str
    kind: str


RequiredValue: TypeAlias = tuple[ValueColumn, Value]
"""A column and the value that it must have."""


def required_values(condition: Expr | None, types: Mapping[str, str]) -> tuple[RequiredValue, ...]:
    """Return the column values that a condition requires; `types` are the types of the columns."""
    found = []
    for part in conjuncts(condition):
        if not isinstance(part, CompareExpr) or part.operator != "=":
            continue
        column, literal = part.left, part.right
        if isinstance(column, LiteralExpr):
            column, literal = literal, column
        if isinstance(column, ColumnExpr) and isinstance(literal, LiteralExpr) and column.name in types:
            compared, value = _compared(column.name, types[column.name], literal.type), literal.value
            if compared and value is not None and value == value:  # noqa: PLR0124  # NaN equals nothing
                found.append((compared, value))
    return tuple(found)


@cache
def _compared(name: str, column: str, literal: str) -> ValueColumn | None:
    """Return how a column and a constant of these types are compared; None if their types have no terms."""
    both = {column, literal}
    if both <= _INTEGERS or both in ({"TIMESTAMP"}, {"BOOLEAN"}):
        return ValueColumn(name, "BIGINT")
    if both <= _INTEGERS | _DOUBLES:
        return ValueColumn(name, "DOUBLE")
    return ValueColumn(name, "STRING") if both == {"STRING"} else None


def stored_terms(column: ValueColumn, values: Array, pool: Interner) -> Keys:
    """Return the terms of stored values, (n,); texts are codes of the pool."""
    if column.kind != "STRING":
        return _spelled(column, _bits(column, values))
    return _spelled(column, pool.hashes_of(values))


def constant_term(column: ValueColumn, value: Value) -> Keys:
    """Return the term of a constant, as an array with one element."""
    if column.kind == "STRING":
        return _spelled(column, hash_keys(pa.array([str(value)])))
    return _spelled(column, _bits(column, np.array([value])))


def _bits(column: ValueColumn, numbers: Array) -> Array:
    """Return equal bits for equal numbers, uint64 (n,); adding 0.0 turns -0.0 into 0.0."""
    if column.kind == "BIGINT":
        return numbers.astype(np.int64).view(np.uint64)
    return (numbers.astype(np.float64) + 0.0).view(np.uint64)


def _spelled(column: ValueColumn, bits: Array) -> Keys:
    """Return the terms of a column's values, from 64 bits of each value, uint64 (n,)."""
    own = hash_keys(pa.array([f"{column.kind} {column.name}"]))
    data = spell_hashes(hash_integers(frozen((bits ^ own).view(np.int64))))
    ends = np.arange(0, len(data) + 1, SPELLED, dtype=np.int32)
    return pa.StringArray.from_buffers(len(bits), pa.py_buffer(ends.data), pa.py_buffer(data.data))
