"""Register a Python function with a session, for the expressions of its queries.

A function takes one Arrow array for each argument, and returns the same number of values: an array, a list,
or a numpy or pandas column. Each value must depend on its own row only. The function is stored with the
queries that call it, serialized by cloudpickle: its code and whatever it uses of its own module; other
modules are imported where the engine runs. It therefore survives a restart of the engine. A query keeps the
function with which it was registered.

If it fails, or returns values of another type or number, a continuous query gets NULL, and SHOW STATUS
counts and explains the failure. A snapshot, and a select list that is computed while updates are read, raise
an error.
"""

from __future__ import annotations

import base64
import inspect
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, get_args

import pyarrow as pa
import pyspark.cloudpickle

from stqsh.core.conditions.user_functions import WrongNumberError, values_of_call
from stqsh.errors import StqshError
from stqsh.lang.binder.functions import is_function
from stqsh.spec.expression import CallExpr, FunctionSpec, ResultType

cloudpickle: Any = pyspark.cloudpickle  # it has no types

_MOST_BYTES = 1 << 20
_ANNOTATED: dict[Any, ResultType] = {str: "STRING", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}
_ANNOTATED |= {kind.__name__: name for kind, name in list(_ANNOTATED.items())}


def function_spec(name: str, function: Callable[..., Any], returns: str | None) -> FunctionSpec:
    """Return the definition of a function that is stored with queries.

    Raises:
        StqshError: the name or the type is invalid, or the function cannot be sent to other processes.
    """
    upper = name.upper()
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise StqshError(f"{name!r} is not a valid function name: use letters, digits and _")
    if is_function(upper):
        raise StqshError(f"{upper} is a function of the language; choose another name")
    if not callable(function):
        raise StqshError(f"{name} is not a function but a {type(function).__name__}")
    code = _code(name, function)
    return FunctionSpec(upper, code, _result(name, function, code, returns))


def _code(name: str, function: Callable[..., Any]) -> str:
    """Return a function serialized with what it uses of its own module; installed modules by name only."""
    try:
        with _by_value(sys.modules.get(function.__module__ or "")):
            content = cloudpickle.dumps(function)
    except Exception as error:
        raise StqshError(f"{name} cannot be sent to the engine: {error}") from error
    if len(content) > _MOST_BYTES:
        raise StqshError(
            f"{name} takes {len(content):,} bytes, more than {_MOST_BYTES:,}: put what it needs into a file,"
            " and read that when it is called first"
        )
    return base64.b64encode(content).decode("ascii")


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Serialize functions of a module that is not installed by value."""
    file = getattr(module, "__file__", None)
    installed = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
    if module is None or file is None or any(file.startswith(f"{path}/") for path in installed):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _result(name: str, function: Callable[..., Any], code: str, returns: str | None) -> ResultType:
    """Return the type of a function's values: the given one, else the annotated one, else found by a call."""
    types: tuple[ResultType, ...] = get_args(ResultType)
    _probe(name, function, code, "STRING")
    if returns is not None:
        found = next((kind for kind in types if kind == returns.upper()), None)
        if found is None:
            raise StqshError(f"{name} cannot return {returns}; there are {', '.join(types)}")
        return found
    annotated = _ANNOTATED.get(getattr(function, "__annotations__", {}).get("return"))
    if annotated is not None:
        return annotated
    return next((kind for kind in types if _gives(name, function, code, kind)), types[0])


def _gives(name: str, function: Callable[..., Any], code: str, kind: ResultType) -> bool:
    """Return whether a function returns values of a type when each argument is a text."""
    given = _probe(name, function, code, kind)
    return given is not None and given.null_count == 0


def _probe(name: str, function: Callable[..., Any], code: str, kind: ResultType) -> pa.Array[Any] | None:
    """Return a function's values for three texts in each argument; None if it fails for texts.

    Raises:
        StqshError: it returns another number of values.
    """
    try:
        count = len(inspect.signature(function).parameters)
    except ValueError:
        count = 1
    call = CallExpr(name, code, (), ("STRING",) * count, kind)
    try:
        return values_of_call(call, [pa.array(["a", "b c", "d"])] * count, 3)
    except WrongNumberError as error:
        raise StqshError(f"{name} does not take whole columns: {error}") from error
    except Exception:  # its arguments may not be texts
        return None
