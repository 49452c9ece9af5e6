"""Bind REGISTER statements that are alike but for the values of their region: the first for all of them.

The form of such statements is bound like the template of REGISTER QUERIES, with a hole for each value. That
is valid for as long as what the session defines stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from stqsh.client.statements.context import StatementContext
from stqsh.errors import StqshError
from stqsh.lang.ast.statements import RegisterQuery
from stqsh.lang.binder.bare_words import has_bare_words
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.parameters import Content
from stqsh.lang.binder.regions import ANTIMERIDIAN, POLE
from stqsh.lang.printer.values import number, quoted
from stqsh.lang.syntax.forms import Alike, Form, alike_of
from stqsh.lang.syntax.parse import parse
from stqsh.lang.types import WHOLE_RANGES
from stqsh.spec.query import QuerySpec, with_members
from stqsh.storage.control_log import to_text


def _in_range(value: int, kind: str) -> bool:
    low, high = WHOLE_RANGES[kind]
    return low <= value <= high


_KEYS: tuple[Content, ...] = ("STRING", "INT", "BIGINT")
"""The contents of holes for the key of a focal object."""
_FITS: dict[Content, Callable[[Any], bool]] = {
    "number": math.isfinite,
    "longitude": lambda value: abs(value) <= ANTIMERIDIAN,
    "latitude": lambda value: abs(value) <= POLE,
    "length": lambda value: value > 0,
    "STRING": lambda value: isinstance(value, str),
    "INT": lambda value: isinstance(value, int) and _in_range(value, "INT"),
    "BIGINT": lambda value: isinstance(value, int) and _in_range(value, "BIGINT"),
}
"""Which values a hole takes; any other value is left to the binder."""
_FEW = 10
"""Statements of a form that are bound one by one."""
_SIDES = (("x1", "x2"), ("y1", "y2"))


@dataclass(frozen=True)
class _BoundForm:
    """A form that is bound.

    Attributes:
        spec: the spec of its queries, with holes.
        holes: for each of a statement's values, the field of the region that it sets, and what fits there.
        words: the text of the SELECT around the values.
        printed: the values of a statement that follow the words, and whether each is a coordinate.
    """

    spec: QuerySpec
    holes: tuple[tuple[str, Content], ...]
    words: tuple[str, ...]
    printed: tuple[tuple[int, bool], ...]

    def filled(self, name: str, given: tuple[int | float | str, ...]) -> QuerySpec | None:
        """Return the spec of the query with these values; None if the binder has to look at them."""
        values: dict[str, Any] = {}
        for (field, content), value in zip(self.holes, given, strict=True):
            if not _FITS[content](value):
                return None
            values[field] = value if content in _KEYS else float(value)
        for low, high in _SIDES:
            if low in values and values[high] < values[low]:
                values[low], values[high] = values[high], values[low]
        text = self.words[0]
        for (place, is_coordinate), after in zip(self.printed, self.words[1:], strict=True):
            value = given[place]
            shown = quoted(value) if isinstance(value, str) else repr(value)
            text += (number(float(value)) if is_coordinate else shown) + after
        spec = with_members(self.spec, region=replace(self.spec.region, **values))
        return replace(spec, text=text, name=name)


def bound_alike(context: StatementContext, statement: RegisterQuery) -> QuerySpec | None:
    """Return the spec of a statement whose form is bound, without its id; None if it must be bound itself.

    The name is not looked up: if it is in use, the binder says by what.
    """
    alike = alike_of(statement)
    if alike is None or alike.form.count < _FEW:
        return None
    bound = context.connection.db.remembered(alike.form, lambda: _bound(context, statement, alike))
    return None if bound is None else bound.filled(statement.name.text, alike.values)


def _bound(context: StatementContext, statement: RegisterQuery, alike: Alike) -> _BoundForm | None:
    """Bind a form; return None if its queries differ by more than the values of their region."""
    try:
        bound = _with_holes(context, alike.form)
        whole = bind(statement, context.view).spec
    except StqshError:  # the binder says why when it gets the statement itself
        return None
    filled = None if bound is None else bound.filled(statement.name.text, alike.values)
    return bound if filled is not None and to_text(filled) == to_text(whole) else None


def _with_holes(context: StatementContext, form: Form) -> _BoundForm | None:
    # pyarrow: only when needed
    from stqsh.spec.query_rows import REGION_PATH
    from stqsh.storage.queries.query_templates import QueryTemplate

    text = form.with_parameters()
    if has_bare_words(text):
        return None
    [statement] = parse(text)
    columns = [f"c{place}" for place in range(len(form.types))]
    types = [[column, kind] for column, kind in zip(columns, form.types, strict=True)]
    spec = bind(statement, context.view, inferred=types).spec
    template = QueryTemplate.of(spec, spec.text, "")
    holes = {hole.column: (path, hole.content) for path, hole in template.holes if path[:-1] == REGION_PATH}
    if len(template.holes) != len(columns) or holes.keys() != set(columns):
        return None
    coordinates = template.coordinates
    return _BoundForm(
        spec,
        tuple((str(path[-1]), content) for path, content in map(holes.__getitem__, columns)),
        template.words,
        tuple((columns.index(column), column in coordinates) for column in template.parameters),
    )
