"""The parser: from text to statements, and what may follow a text."""

from __future__ import annotations

import re
from importlib.resources import files

_GRAMMAR = files("stqsh.lang.syntax").joinpath("grammar.lark").read_text(encoding="utf-8")

KEYWORDS: frozenset[str] = frozenset(re.findall(r'"([A-Z]+)"i', _GRAMMAR))
"""All keywords, in capitals; they are reserved only where a name cannot be meant."""
