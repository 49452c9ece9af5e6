"""Builders of the syntax tree: one function for each grammar rule, by topic.

Lark calls them bottom-up during parsing, so it never builds a tree of its own. `RULES` contains all of them.
"""

from stqsh.lang.ast_builder import commands, definitions, expressions, queries, regions, values
from stqsh.lang.ast_builder.rules import RULES

__all__ = ["RULES", "commands", "definitions", "expressions", "queries", "regions", "values"]
