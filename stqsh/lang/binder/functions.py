"""Bind functions: check their arguments, and determine their type."""

from __future__ import annotations

from typing import NamedTuple, get_args

from stqsh import extensions
from stqsh.extensions import extension_names
from stqsh.lang.ast.expressions import Call, Column, Expression, Literal, Name
from stqsh.lang.ast.statements import CreateFunction
from stqsh.lang.binder.choices import alike, as_text, number_type
from stqsh.lang.binder.extents import region_of
from stqsh.lang.binder.literals import timestamp_us
from stqsh.lang.binder.names import area_named
from stqsh.lang.binder.operators import described
from stqsh.lang.binder.places import place_function
from stqsh.lang.binder.scope import Bind, Scope, TypedExpression
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import NUMBERS, WHOLE_NUMBERS, a_type, type_named
from stqsh.spec.expression import (
    CallExpr,
    DurationExpr,
    FunctionExpr,
    FunctionSpec,
    LiteralExpr,
    RegionOfExpr,
    ResultType,
)
from stqsh.spec.functions import ALIASES, FUNCTIONS, PLACES, UNITS, Argument, Function, named

AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "TOPK"})

_WANTED: dict[Argument, frozenset[str]] = {
    "number": NUMBERS,
    "whole": WHOLE_NUMBERS,
    "duration": frozenset({"DURATION"}),
}
_SAID = {"number": "a number", "whole": "a whole number", "duration": "a duration such as 15 min"}
_NULLS = {"number": "DOUBLE", "whole": "BIGINT"}


def call(node: Call, scope: Scope, bind: Bind) -> TypedExpression:
    """Return a bound call; `bind` binds its argument.

    Raises:
        BindError: the call or an argument is invalid.
    """
    if node.name in AGGREGATES:
        return scope.aggregate(node)
    registered = scope.catalogue.function(node.name)
    if registered is not None and not node.distinct:
        return _registered(node, registered, scope, bind)
    function = named(node.name)
    if node.name != "REGION" and node.name not in PLACES and function is None:
        added = (name.upper() for name in extension_names(extensions.FUNCTIONS))
        close = near(node.name, (*FUNCTIONS, *ALIASES, *PLACES, "REGION", "CAST", *AGGREGATES, *added))
        hint = "HELP FUNCTIONS lists them; CREATE FUNCTION makes one of a Python file"
        raise BindError(
            f"there is no function {node.name}", node.span, near=close, hint=None if close else hint
        )
    if node.distinct:
        raise BindError(
            f"DISTINCT is for COUNT, not for {node.name}", node.span, expected=("COUNT(DISTINCT x)",)
        )
    if function is not None:
        return _function(node, function, scope, bind)
    return _region(node, scope) if node.name == "REGION" else place_function(node, scope, bind)


class NewFunction(NamedTuple):
    """The declaration in CREATE FUNCTION: the name in capitals, the parameters, and the result type.

    `returns` is None if the Python function declares it.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: ResultType | None


def create_function(statement: CreateFunction, catalogue: CatalogueView) -> NewFunction:
    """Return the declaration of a CREATE FUNCTION, without its code. Raises `BindError`."""
    given = statement.name
    name = given.text.upper()
    if not name.isidentifier():
        raise BindError(f"{given.text!r} is no name for a function: use letters, digits and _", given.span)
    if is_function(name):
        raise BindError(f"{name} is a function of the language", given.span, hint="choose another name")
    if name in catalogue.names("function"):
        hint = f"choose another, or DROP FUNCTION {given.text}; first"
        raise BindError(f"there is a function {name} already", given.span, hint=hint)
    types: tuple[ResultType, ...] = get_args(ResultType)
    returns = None
    if statement.returns is not None:
        wanted = number_type(type_named(statement.returns))
        returns = next((kind for kind in types if kind == wanted), None)
        if returns is None:
            raise BindError(
                f"a function cannot return {a_type(wanted)}", statement.returns.span, expected=types
            )
    parameters = statement.parameters
    return NewFunction(name, tuple(zip(parameters.names, parameters.types, strict=True)), returns)


def is_function(name: str) -> bool:
    """Return whether the language has a function with this name in capitals, including aggregates."""
    return name in AGGREGATES or name in PLACES or name in ("REGION", "CAST", "EXTRACT") or bool(named(name))


def _registered(node: Call, function: FunctionSpec, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind a call of a user's registered function."""
    typed = [bind(argument, scope) for argument in node.arguments]
    for argument, one in zip(node.arguments, typed, strict=True):
        if one.type in ("DURATION", "NULL", "TOPK"):
            raise BindError(f"{node.name} takes columns of values, but not {printed(argument)}", one.span)
    if function.parameters is not None:
        _check_parameters(node, function.parameters, typed)
    kinds = tuple(one.type for one in typed)
    expr = CallExpr(function.name, function.code, tuple(one.expr for one in typed), kinds, function.returns)
    return TypedExpression(expr, function.returns, node.span)


def _check_parameters(
    node: Call, parameters: tuple[tuple[str, str], ...], typed: list[TypedExpression]
) -> None:
    """Raise `BindError` unless a call matches the parameters declared by CREATE FUNCTION."""
    syntax = f"{node.name}({', '.join(name for name, _ in parameters)})"
    if len(typed) != len(parameters):
        takes = f"{len(parameters)} argument{'' if len(parameters) == 1 else 's'}"
        raise BindError(f"{node.name} takes {takes}, and got {len(typed)}", node.span, expected=(syntax,))
    for argument, one, (name, kind) in zip(node.arguments, typed, parameters, strict=True):
        if kind and number_type(kind) != number_type(one.type) and not {kind, one.type} <= NUMBERS:
            problem = f"{name} of {node.name} is {a_type(kind)}, but {described(argument, one)}"
            raise BindError(problem, argument.span, expected=(syntax,))


def _function(node: Call, function: Function, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind a call of a function of the language."""
    _check_number(node, function)
    if function.arguments[0] == "alike":
        typed = alike(node.arguments, scope, bind, node.name)
    else:
        typed = [
            _argument(argument, kind, function, scope, bind)
            for argument, kind in zip(node.arguments, _kinds(node, function), strict=True)
        ]
    first = typed[0].type
    kind = {"same": number_type(first), "alike": _joint_type(typed)}.get(function.returns, function.returns)
    expr = FunctionExpr(
        function.name,
        typed[0].expr,
        tuple(one.expr for one in typed[1:]),
        kind if function.returns in ("same", "alike") else "",
    )
    return TypedExpression(expr, kind, node.span)


def _joint_type(typed: list[TypedExpression]) -> str:
    kinds = {number_type(one.type) for one in typed}
    return "DOUBLE" if "DOUBLE" in kinds else kinds.pop()


def _kinds(node: Call, function: Function) -> tuple[Argument, ...]:
    """Return the requirement for each argument of a call."""
    if function.repeats:
        return function.arguments * len(node.arguments)
    return function.arguments[: len(node.arguments)]


def _check_number(node: Call, function: Function) -> None:
    """Raise `BindError` unless a call has as many arguments as its function accepts."""
    given, most = len(node.arguments), len(function.arguments)
    least = most - function.optional
    if least <= given and (function.repeats or given <= most):
        return
    number = f"{least} or more" if function.repeats else " or ".join(map(str, sorted({least, most})))
    noun = "argument" if number == "1" else "arguments"
    raise BindError(
        f"{node.name} takes {number} {noun}, and got {given}", node.span, expected=(function.syntax,)
    )


def _argument(
    node: Expression, kind: Argument, function: Function, scope: Scope, bind: Bind
) -> TypedExpression:
    """Bind an argument of a function according to its requirement; NULL gets a suitable type."""
    if kind == "unit":
        return _unit(node, function)
    typed = bind(node, scope)
    if kind == "text":
        return as_text(node, typed, function.name)
    wanted = _WANTED.get(kind, frozenset({kind}))
    if kind == "TIMESTAMP" and isinstance(node, Literal) and node.kind == "STRING":
        return TypedExpression(LiteralExpr(timestamp_us(str(node.value), node.span), kind), kind, node.span)
    if typed.type == "NULL" and kind != "duration":
        return TypedExpression(LiteralExpr(None, _NULLS.get(kind, kind)), _NULLS.get(kind, kind), node.span)
    if typed.type not in wanted:
        raise BindError(
            f"{function.name} takes {_SAID.get(kind, a_type(kind))}, but {described(node, typed)}",
            node.span,
            expected=(function.syntax,),
        )
    if kind == "duration" and not (isinstance(typed.expr, DurationExpr) and typed.expr.us > 0):
        raise BindError(f"{function.name} takes a duration of more than 0", node.span)
    return typed


def _unit(node: Expression, function: Function) -> TypedExpression:
    """Return the unit of a DATE_TRUNC, which must be a constant."""
    text = str(node.value).lower() if isinstance(node, Literal) and node.kind == "STRING" else None
    unit = text if text in UNITS else (text or "").removesuffix("s")
    if unit not in UNITS:
        what = "the name of a unit" if text is None else f"no unit {text!r}"
        raise BindError(
            f"{function.name} takes {what}" if text is None else f"{function.name} knows {what}",
            node.span,
            expected=tuple(f"'{one}'" for one in UNITS),
            near=None if text is None else near(text, UNITS),
        )
    return TypedExpression(LiteralExpr(unit, "STRING"), "STRING", node.span)


def _region(node: Call, scope: Scope) -> TypedExpression:
    name = node.arguments[0] if len(node.arguments) == 1 else None
    if not isinstance(name, Column) or name.qualifier is not None:
        raise BindError("REGION takes the name of a set of regions", node.span, expected=("REGION(zones)",))
    area = area_named(Name(name.name, span=name.span), scope.catalogue)
    if not area.set:
        raise BindError(
            f"{area.name} is a single region",
            name.span,
            hint=f"REGION takes a set of regions; loc INSIDE {area.name} tests a single one",
        )
    extended = scope.stream.extent is not None
    expr = region_of(area, scope.stream, scope.catalogue) if extended else RegionOfExpr(area.id)
    return TypedExpression(expr, "STRING", node.span)
