"""Name patterns of SHOW … LIKE and DROP … LIKE."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_GLOBS = {"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"}
_SIGN = re.compile(r"\\(.)|(.)", re.DOTALL)


def glob_of(pattern: str) -> str:
    r"""Convert a LIKE pattern to a glob: % is any text, _ one character, \ escapes the next character.

    >>> glob_of("taxi_%"), glob_of(r"50\%[a]")
    ('taxi?*', '50%[[]a]')
    """

    def translated(sign: re.Match[str]) -> str:
        literal, plain = sign.groups()
        if literal is not None:
            return f"[{literal}]" if literal in "*?[" else str(literal)
        return _GLOBS.get(plain, plain)

    return _SIGN.sub(translated, pattern)


def is_like(name: str, pattern: str) -> bool:
    """Return whether a name matches a LIKE pattern, case-sensitively."""
    return fnmatchcase(name, glob_of(pattern))
