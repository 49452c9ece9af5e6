"""Statements as the user wrote them: one frozen dataclass for each.

`parse` returns these, `to_sql` converts them back to text, and `bind` checks them against the catalogue.
Every statement refers to its piece of source; comparisons ignore that and the spans.
"""

from __future__ import annotations

import re
from functools import cache

# Everything that these modules define; a class of a statement is written once.
from stqsh.lang.ast.definition_statements import *  # noqa: F403
from stqsh.lang.ast.query_statements import *  # noqa: F403
from stqsh.lang.ast.session_statements import *  # noqa: F403
from stqsh.lang.ast.statement import *  # noqa: F403
from stqsh.lang.ast.statement import Statement


@cache
def by_rule() -> dict[str, type[Statement]]:
    """Return the classes of all statements by the names of their rules.

    >>> by_rule()["pause_query"].__name__
    'PauseQuery'
    """
    kinds = Statement.__subclasses__()
    return {re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in kinds}
