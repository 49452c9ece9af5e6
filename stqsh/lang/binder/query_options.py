"""The options of a query: `WITH (dwell => 5 s, changes => true)`."""

from __future__ import annotations

from stqsh.lang.ast.expressions import Literal, Quantity
from stqsh.lang.ast.statements import RegisterQueries, RegisterQuery, Select
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.errors import BindError, NotSupportedError, near
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.query import BUILT_IN, QueryOptions

OPTIONS = ("changes", "dwell", "error", "kind", "min_accuracy")


AS_A_QUERY = "options of a continuous query come before AS: REGISTER QUERY name WITH (…) AS SELECT …"


def query_options(
    query: RegisterQuery | RegisterQueries, kind: str, aggregates: AggregateSpec | None = None
) -> tuple[str, QueryOptions]:
    """Return the query's kind (`kind` unless an option names another), and the given options.

    Args:
        query: The statement.
        kind: The kind of the query according to its SELECT.
        aggregates: Its aggregates.

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
    wanted_kind, switch, dwell = given.get("kind"), given.get("changes"), given.get("dwell")
    share, error = given.get("min_accuracy"), given.get("error")
    if wanted_kind is not None:
        kind = _kind(wanted_kind, kind)
    changes = switch is not None and _switch(switch, "changes")
    return kind, QueryOptions(
        dwell_us=None if dwell is None else _dwell(dwell),
        min_accuracy=None if share is None else _share(share),
        since_now=query.since_now,
        changes=changes,
        error=None if error is None else _error(error, aggregates),
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


def snapshot_error(select: Select, aggregates: AggregateSpec | None) -> float:
    """Return the error that `WITH (error => …)` of a snapshot allows, 0 without it.

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
        error = _share_of_records(value, aggregates)
        if aggregates is not None and aggregates.over == "nearest":
            raise NotSupportedError("approximate TOPK over NEAREST", value.span)
    return error


def _error(value: Literal | Quantity, aggregates: AggregateSpec | None) -> float:
    error = _share_of_records(value, aggregates)
    if aggregates is None or aggregates.sync_us is None or aggregates.over == "nearest":
        raise NotSupportedError("approximate TOPK without SYNC or WINDOW, or over NEAREST", value.span)
    return error


def _share_of_records(value: Literal | Quantity, aggregates: AggregateSpec | None) -> float:
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
