"""Functions that a user registers with a session, for the expressions of its queries."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

ResultType: TypeAlias = Literal["STRING", "BIGINT", "DOUBLE", "BOOLEAN"]


class FunctionSpec(Struct, frozen=True):
    """A function of whole columns.

    Attributes:
        name: the name by which statements call it, in upper case.
        code: the function as `pickle` reads it, in base64.
        returns: the type of its values.
    """

    name: str
    code: str
    returns: ResultType
