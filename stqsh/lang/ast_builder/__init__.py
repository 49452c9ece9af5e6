"""Builders of the syntax tree: one function for each grammar rule, by topic.

Lark calls them bottom-up during parsing, so it never builds a tree of its own. `RULES` contains all of them.
A rule without a function here builds the statement whose class has its name: `pause_query` a PauseQuery.
"""

from stqsh.lang.ast import statements
from stqsh.lang.ast_builder import commands, definitions, expressions, queries, regions, values
from stqsh.lang.ast_builder.rules import RULES, statement_of
from stqsh.lang.syntax import RULE_NAMES

__all__ = ["RULES", "commands", "definitions", "expressions", "queries", "regions", "values"]

for _name, _kind in statements.by_rule().items():
    if _name in RULE_NAMES and _name not in RULES:
        RULES[_name] = statement_of(_kind)
