"""CREATE SINK and CREATE ALERT: the engine starts the process that writes updates and runs alerts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.create import there_already
from stqsh.client.statements.source_paths import make_folder
from stqsh.lang.ast import statements
from stqsh.lang.ast.statements import FileTarget
from stqsh.lang.binder.bind import bind
from stqsh.lang.errors import BindError, locating
from stqsh.lang.printer.printer import to_sql
from stqsh.spec.sink import AlertTargetSpec, FileTargetSpec, RunActionSpec, SinkSpec
from stqsh.storage.output_files import is_file_of
from stqsh.storage.sinks.sink_catalogue import create_sink as enter_sink


def create_sink(context: StatementContext, statement: statements.CreateSink) -> Iterator[Outcome]:
    """Create a sink, which begins with the current answers."""
    if context.knows(statement.name.text):
        yield there_already(context, statement)
        return
    target = statement.target
    if isinstance(target, FileTarget) and target.folder:
        folder = str(Path(target.folder).expanduser().absolute())
        statement = replace(statement, target=replace(target, folder=folder))
    spec: SinkSpec = bind(statement, context.view).spec
    with locating(statement.piece):
        if isinstance(spec.target, FileTargetSpec):
            _make_folder(spec, spec.target, statement)
    sink = enter_sink(context.connection.db, f"{to_sql(statement)};", spec)
    context.connection.wake()
    yield Message(f"sink {sink.name} created: {sink.spec.place}")


def create_alert(context: StatementContext, statement: statements.CreateAlert) -> Iterator[Outcome]:
    """Create an alert, which acts on updates from now on.

    Raises:
        BindError: a script would run a command without being allowed to.
    """
    if context.knows(statement.name.text):
        yield there_already(context, statement)
        return
    action = statement.action
    is_script = context.is_script or context.script is not None
    if action.kind == "run" and is_script and not context.allow_run:
        with locating(statement.piece):
            raise BindError(
                "a script may make an alert that runs a command only with --allow-run",
                action.span,
                hint="add --allow-run to the command line, if you trust the script",
            )
    spec: SinkSpec = bind(statement, context.view).spec
    assert isinstance(spec.target, AlertTargetSpec), f"{spec.name} is an alert"
    if isinstance(spec.target.action, RunActionSpec):
        run = msgspec.structs.replace(spec.target.action, folder=str(Path.cwd()))
        spec = msgspec.structs.replace(spec, target=msgspec.structs.replace(spec.target, action=run))
    alert = enter_sink(context.connection.db, f"{to_sql(statement)};", spec)
    context.connection.wake()
    yield Message(f"alert {alert.name} created: {alert.spec.place}")


def _make_folder(spec: SinkSpec, target: FileTargetSpec, statement: statements.CreateSink) -> None:
    """Make the folder of a sink; raise `BindError` if it is unusable or already holds such files."""
    span = statement.target.span
    folder = make_folder(target.folder, span)
    found = next((path.name for path in folder.iterdir() if is_file_of(path.name, spec.name)), None)
    if found is not None:
        raise BindError(
            f"{folder} has files of another sink called {spec.name}, such as {found}",
            span,
            hint="choose another folder or name, or move these files away: they are never overwritten",
        )
