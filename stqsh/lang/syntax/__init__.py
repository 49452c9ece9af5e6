"""The parser: it converts text to statements, and determines what may follow a text."""

from __future__ import annotations

import re
from importlib.resources import files

_GRAMMAR = files("stqsh.lang.syntax").joinpath("grammar.lark").read_text(encoding="utf-8")

KEYWORDS: frozenset[str] = frozenset(re.findall(r'"([A-Z]+)"i', _GRAMMAR))
"""All keywords, in capitals; a keyword is reserved only where a name is not possible."""
RULE_NAMES: frozenset[str] = frozenset(re.findall(r"(?m)^!?([a-z_]+):", _GRAMMAR))
"""The names of the rules that are not inlined."""
