"""Bind CREATE SINK and CREATE ALERT to a SinkSpec."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import (
    AlertAction,
    CreateAlert,
    CreateSink,
    FileTarget,
    HttpTarget,
    KafkaTarget,
    SinkTarget,
)
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.binder.names import check_free, query_named
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, near
from stqsh.spec.message import HEAD_FIELDS, message_parts
from stqsh.spec.query import QuerySpec
from stqsh.spec.sink import (
    AlertActionSpec,
    AlertEdge,
    AlertTargetSpec,
    BellActionSpec,
    FileTargetSpec,
    HttpTargetSpec,
    KafkaTargetSpec,
    NotifyActionSpec,
    PostActionSpec,
    RunActionSpec,
    SinkSpec,
    SinkTargetSpec,
)

_BROKER = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
_EVERY_US = 1_000_000
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SECRETS = "such as STQSH_SINKS_HTTP_AUTHORIZATION, or sinks.http.authorization in the profile"


def create_sink(sink: CreateSink, catalogue: CatalogueView) -> SinkSpec:
    """Return the spec, without its id and its position in the log; raise `BindError` if it is invalid."""
    check_free(sink.name, catalogue)
    queries = tuple(query_named(name, catalogue).name for name in sink.queries)
    return SinkSpec(name=sink.name.text, queries=queries, target=_target(sink.target))


def _target(target: SinkTarget) -> SinkTargetSpec:
    match target:
        case FileTarget(folder, form):
            return FileTargetSpec(folder, form)
        case HttpTarget():
            return _http(target)
        case KafkaTarget():
            return _kafka(target)


def create_alert(alert: CreateAlert, catalogue: CatalogueView) -> SinkSpec:
    """Return the spec of an alert, without its id, its position in the log, and its command's folder.

    Raises:
        BindError: it is invalid.
    """
    check_free(alert.name, catalogue)
    every_us = _EVERY_US if alert.every is None else duration_us(alert.every, "EVERY")
    edge: AlertEdge | None = None
    if alert.edge is not None:
        edge = "enter" if alert.edge == "ENTER" else "leave"
    query = query_named(alert.query, catalogue)
    _check_fields(alert.action, query)
    target = AlertTargetSpec(_action(alert.action), every_us, edge)
    return SinkSpec(name=alert.name.text, queries=(query.name,), target=target)


def _check_fields(action: AlertAction, query: QuerySpec) -> None:
    """Raise `BindError` if the action's text refers to a field that the query's rows do not have."""
    if action.template is None:
        return
    text, start = str(action.template.value), action.template.span.start + 1
    columns = [column.name for column in query.result.select]
    for part in message_parts(text):
        if part.kind == "text" or (part.kind == "field" and part.text in {*columns, *HEAD_FIELDS}):
            continue
        first, last = (start + place + text[:place].count("'") for place in (part.start, part.end))
        if part.kind == "brace":
            problem = f"a {part.text} alone; write {part.text * 2} for one, or {{{columns[0]}}} for a column"
            raise BindError(problem, Span(first, last))
        raise BindError(
            f"{query.name} has no column {part.text!r} for the text",
            Span(first, last),
            expected=tuple(f"{{{name}}}" for name in (*columns, *HEAD_FIELDS)),
            near=near(part.text, (*columns, *HEAD_FIELDS)),
        )


def _action(action: AlertAction) -> AlertActionSpec:
    said = "" if action.template is None else str(action.template.value)
    match action.kind:
        case "run":
            if not action.text.strip() or "\0" in action.text:
                raise BindError("RUN takes a command", action.span, expected=("RUN 'program argument'",))
            return RunActionSpec(action.text, "", said)
        case "post":
            _check_address(action.text, action.span, "POST")
            return PostActionSpec(action.text, said)
        case "bell":
            return BellActionSpec(said)
    return NotifyActionSpec(said)


def _http(target: HttpTarget) -> HttpTargetSpec:
    _check_address(target.url, target.span, "TO HTTP")
    return HttpTargetSpec(target.url)


def _check_address(url: str, span: Span, clause: str) -> None:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")  # the form used for the look-up
        is_whole = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or any(ord(sign) <= 32 for sign in url):
        raise BindError(
            f"{clause} takes a complete address", span, expected=("'http://host:port/path', or https",)
        )
    if parts.username is not None or parts.password is not None:
        raise BindError(
            "a password in an address is shown to everybody who sees the sink",
            span,
            hint=f"set it in the environment, {_SECRETS}",
        )


def _kafka(target: KafkaTarget) -> KafkaTargetSpec:
    brokers = [broker.strip() for broker in target.brokers.split(",")]
    if not all(map(_BROKER.fullmatch, brokers)):
        raise BindError("TO KAFKA takes brokers", target.span, expected=("'host:port, host:port'",))
    if not _TOPIC.fullmatch(target.topic) or target.topic in (".", ".."):
        raise BindError(
            f"{target.topic!r} cannot be a topic's name",
            target.span,
            hint="use letters, digits, '.', '_' and '-', at most 249 of them",
        )
    return KafkaTargetSpec(",".join(brokers), target.topic, target.mode)
