"""CREATE FUNCTION: a function from Python text; the session stores the text and the code."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from stqsh.client.functions import function_spec
from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.source_paths import find_files
from stqsh.errors import SourceError, StqshError
from stqsh.lang.ast.statements import CreateFunction
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.functions import NewFunction
from stqsh.lang.errors import BindError, locating, near
from stqsh.spec.expression import FunctionSpec
from stqsh.storage.catalogue_writer import add_function

_MOST_CHARACTERS = 50_000
"""The maximum length of a function's text, so that the statement that DUMP prints can be parsed."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_FAILURES = (Exception, SystemExit)
"""Whatever a user's file may raise, including calls of exit()."""


def create_function(context: StatementContext, statement: CreateFunction) -> Iterator[Outcome]:
    """Execute CREATE FUNCTION: run the Python text here, and store the function and the text.

    Raises:
        BindError: a script may not run code, or the text does not define the function.
    """
    with locating(statement.piece):
        bound = bind(statement, context.view)
        if bound.spec is None:
            yield Message("; ".join(bound.notes))
            return
        if (context.is_script or context.script is not None) and not context.allow_run:
            raise BindError(
                "a script may make a function of Python code only with --allow-run",
                statement.code.span,
                hint="add --allow-run to the command line, if you trust the script",
            )
        text, origin = _text(context, statement)
        try:
            spec = _spec(bound.spec, text, origin, statement)
        except BindError:
            raise
        except StqshError as error:
            raise BindError(error.message, statement.code.span, hint=error.hint) from error
    add_function(context.connection.db, spec)
    named = ", ".join(name for name, _ in bound.spec.parameters)
    yield Message(f"function {spec.name}({named}) created: it returns {spec.returns}")


def _text(context: StatementContext, statement: CreateFunction) -> tuple[str, str]:
    """Return the Python text of a function and the name of its file, "" without a file."""
    given, span, path = str(statement.code.value), statement.code.span, ""
    if statement.is_file:
        beside = None if context.script is None else Path(context.script).absolute().parent
        try:
            path = find_files(given, beside)
            given = Path(path).read_text(encoding="utf-8")
        except SourceError as error:
            raise BindError(error.message, span, hint=error.hint) from error
        except (OSError, UnicodeDecodeError) as error:
            raise BindError(f"{path} cannot be read: {error}", span) from error
    if len(given) > _MOST_CHARACTERS:
        raise BindError(
            f"the code has {len(given):,} characters, and at most {_MOST_CHARACTERS:,} are kept",
            span,
            hint="put what it needs into a module that is installed where the engine runs",
        )
    return given, path


def _spec(new: NewFunction, text: str, origin: str, statement: CreateFunction) -> FunctionSpec:
    """Return the function that a text defines under a name, ignoring case."""
    function = _defined(new.name, text, origin, statement)
    _check_signature(function, new, statement)
    spec = function_spec(new.name, function, new.returns)
    return replace(spec, parameters=new.parameters, text=text, origin=origin)


def _defined(name: str, text: str, origin: str, statement: CreateFunction) -> Callable[..., Any]:
    span, place, file = statement.code.span, origin or "the code", origin or "<function>"
    module = ModuleType(f"stqsh_{name.lower()}")  # not in sys.modules, so functions are pickled by value
    try:
        exec(compile(text, file, "exec"), vars(module))
    except SyntaxError as error:
        raise BindError(f"{place} is no Python: line {error.lineno}: {error.msg}", span) from error
    except _FAILURES as error:
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        line = own[-1] if own else 1
        raise BindError(f"{place} fails: line {line}: {type(error).__name__}: {error}", span) from error
    functions = {key: value for key, value in vars(module).items() if inspect.isfunction(value)}
    found = next((value for key, value in functions.items() if key.upper() == name), None)
    if found is None:
        known = ", ".join(functions) or "none"
        close = near(name.lower(), functions)
        raise BindError(f"{place} has no function {name.lower()}", span, near=close, hint=f"it has {known}")
    return found


def _check_signature(function: Callable[..., Any], new: NewFunction, statement: CreateFunction) -> None:
    """Raise `BindError` unless a function accepts as many columns as the statement declares."""
    taken = inspect.signature(function).parameters.values()
    positional = [one for one in taken if one.kind in _POSITIONAL]
    least = sum(one.default is inspect.Parameter.empty for one in positional)
    any_number = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in taken)
    keywords = [one for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY]
    needed = [one.name for one in keywords if one.default is inspect.Parameter.empty]
    count = len(new.parameters)
    if count < least or needed or (count > len(positional) and not any_number):
        signature = f"{function.__name__}{inspect.signature(function)}"
        problem = f"the function is {signature}, and the statement gives it {count}"
        raise BindError(f"{problem} column{'' if count == 1 else 's'}", statement.name.span)
