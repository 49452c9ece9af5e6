"""The options of a query: `WITH (dwell => 5 s, changes => true)`."""

from __future__ import annotations

from msgspec.structs import replace

from stqsh.lang.ast.expressions import Literal, Quantity
from stqsh.lang.ast.statements import RegisterQueries, RegisterQuery, Select
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.errors import BindError, NotSupportedError, near
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.query import BUILT_IN, QuerySpec, with_members, with_result, with_timing

OPTIONS = ("changes", "dwell", "error", "kind", "min_accuracy")


AS_A_QUERY = "options of a continuous query come before AS: REGISTER QUERY name WITH (…) AS SELECT …"


def with_options(query: RegisterQuery | RegisterQueries, spec: QuerySpec) -> QuerySpec:
    """Return a query with its FOR, its SINCE NOW and the options of its WITH clause.

    Args:
        query: The statement.
        spec: The query that its SELECT means.

    Raises:
        BindError: an option does not exist, or its value is invalid.
        NotSupportedError: the option is not implemented yet.
    """
    given = dict(query.options)
    for name, value in query.options:
        if name not in OPTIONS:
            place = query.option_name(name, value.span)
            raise BindError(
                f"a query has no option {name!r}", place, expected=OPTIONS, near=near(name, OPTIONS)
            )
    if (kind := given.get("kind")) is not None:
        spec = replace(spec, kind=_kind(kind, spec.kind))
    if (error := given.get("error")) is not None:
        spec = with_result(spec, aggregates=_with_error(error, spec))
    if (share := given.get("min_accuracy")) is not None:
        spec = with_members(spec, min_accuracy=_share(share))
    if query.since_now:
        spec = with_members(spec, since_now=True)
    switch, dwell = given.get("changes"), given.get("dwell")
    return with_timing(
        spec,
        dwell_us=None if dwell is None else _dwell(dwell),
        changes=switch is not None and _switch(switch, "changes"),
        for_us=None if query.duration is None else duration_us(query.duration, "FOR"),
    )


def _kind(value: Literal | Quantity, natural: str) -> str:
    if not isinstance(value, Literal) or value.kind != "STRING" or not value.value:
        raise BindError("kind must be the name of a kind of query, in quotes", value.span)
    named = str(value.value)
    if named in BUILT_IN and named != natural:
        raise BindError(f"this is a {natural} query, not a {named} query", value.span)
    return named


def _switch(value: Literal | Quantity, name: str) -> bool:
    if not isinstance(value, Literal) or not isinstance(value.value, bool):
        raise BindError(f"{name} must be true or false", value.span, expected=("true", "false"))
    return value.value


def _dwell(value: Literal | Quantity) -> int:
    if not isinstance(value, Quantity):
        raise BindError("dwell must be a duration, such as 5 s", value.span)
    return duration_us(value, "dwell")


def snapshot_error(select: Select, spec: QuerySpec, aggregates: AggregateSpec | None) -> float:
    """Return the error that `WITH (error => …)` of a snapshot allows, 0 without it.

    Args:
        select: The statement.
        spec: Its members.
        aggregates: Its aggregates.

    Raises:
        BindError: there is another option, the value is invalid, or there is no TOPK.
        NotSupportedError: TOPK is over NEAREST.
    """
    error = 0.0
    for name, value in select.options:
        if name != "error":
            place = select.option_name(name, value.span)
            raise BindError(
                f"a SELECT has no option {name!r}",
                place,
                expected=("error",),
                near=near(name, ("error",)),
                hint=AS_A_QUERY if name in OPTIONS else None,
            )
        error = _error(value, aggregates)
        if spec.region.is_nearest:
            raise NotSupportedError("approximate TOPK over NEAREST", value.span)
    return error


def _with_error(value: Literal | Quantity, spec: QuerySpec) -> AggregateSpec:
    error = _error(value, spec.aggregates)
    if spec.aggregates is None or spec.timing.sync_us is None or spec.region.is_nearest:
        raise NotSupportedError("approximate TOPK without SYNC or WINDOW, or over NEAREST", value.span)
    return replace(spec.aggregates, error=error)


def _error(value: Literal | Quantity, aggregates: AggregateSpec | None) -> float:
    number = value.value if isinstance(value, Literal) and value.kind in ("INTEGER", "DECIMAL") else None
    if number is None or not 0 < float(number) < 1:
        raise BindError("error must be a number between 0 and 1, such as 0.01", value.span)
    if aggregates is None or all(measure.function != "topk" for measure in aggregates.measures):
        raise BindError("error is for TOPK, whose counts it allows to be too high", value.span)
    return float(number)


def _share(value: Literal | Quantity) -> float:
    number = value.value if isinstance(value, Literal) and value.kind in ("INTEGER", "DECIMAL") else None
    if number is None or not 0 <= float(number) <= 1:
        raise BindError("min_accuracy must be a number from 0 to 1, such as 0.9", value.span)
    return float(number)
