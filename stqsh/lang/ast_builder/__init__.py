"""From the grammar's rules to the statements' tree: one function a rule, by topic.

Lark calls them bottom-up while it parses, so no tree of its own is ever built. `RULES` holds them all.
"""

from stqsh.lang.ast_builder import commands, definitions, expressions, queries, regions, values
from stqsh.lang.ast_builder.rules import RULES

__all__ = ["RULES", "commands", "definitions", "expressions", "queries", "regions", "values"]
