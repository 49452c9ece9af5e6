"""What a case asks: the kinds of its queries, and few cases that ask for all kinds among them."""

from __future__ import annotations

from collections.abc import Iterable

from support.cases import Spec
from support.scripts import ScriptCase


def kinds(script: ScriptCase) -> set[str]:
    """The kinds of a script's queries, snapshots and commands, and of its stream and its order."""
    spec = script.case.spec
    found = {f"{spec['kind']} by {spec['order']}"}
    found |= {command["op"] for _, command in script.case.commands}
    for what, asked in [("register", q) for q in script.case.queries] + [
        ("select", q) for _, q in script.looks
    ]:
        found |= {f"{what} {spec['kind']} {kind}" for kind in _kinds_of(asked)}
    return found


def _kinds_of(query: Spec) -> Iterable[str]:
    """Where a query looks, whether with a condition, words, a table, for how long, how often."""
    region = query["region"]
    yield region["type"] + (" around" if "focal" in region else "")
    told = {
        "condition": query["condition"],
        "words": "contains" in str(query["condition"]),
        "join": query["join"],
        "for": query.get("for_us"),
        "dwell": query.get("options"),
        "key": query.get("lookup"),
        "count": query.get("aggregate"),
        "order": query.get("order"),
    }
    yield from (name for name, there in told.items() if there)


def covering(scripts: list[ScriptCase], wanted: set[str]) -> list[ScriptCase]:
    """Few of the scripts, with all wanted kinds that any of them has: each time the one that adds most."""
    missing = set().union(*map(kinds, scripts)) & wanted
    chosen = []
    while missing:
        best = max(scripts, key=lambda script: len(kinds(script) & missing))
        chosen.append(best)
        missing -= kinds(best)
    return chosen
