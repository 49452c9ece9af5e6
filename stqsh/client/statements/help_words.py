"""The single words that HELP explains: clauses, types, functions, options, units and settings.

HELP shows such an entry if no section of the manual has the name. Clauses, types, aggregates and options are
read from tables of the manual; functions, units and settings from those of the code.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from stqsh.docs.manual import options, plain_text, section_named, table
from stqsh.settings import KEYS
from stqsh.spec import functions
from stqsh.units import UNITS


class WordEntry(NamedTuple):
    """The text that HELP shows for a word.

    Attributes:
        name: The word, or several.
        kind: Its kind: a clause, an option, a unit, …
        syntax: Its syntax.
        meaning: Its meaning.
    """

    name: str
    kind: str
    syntax: str
    meaning: str


_OWNERS = {
    "WITH": "REGISTER QUERY name WITH ({}) AS …",
    "SELECT": "SELECT … WITH ({})",
    "GENERATOR": "FROM GENERATOR 'network' ({})",
}


@cache
def words() -> tuple[WordEntry, ...]:
    """Return the entries of all words: clauses, types, functions, options, units and settings."""
    return (*_clauses(), *_types(), *_functions(), *_options(), *_units(), *_settings())


def _clauses() -> list[WordEntry]:
    rows = [[plain_text(cell) for cell in row] for row in table(section_named("Words"), "word")]
    return [
        WordEntry(name, "function" if syntax.startswith(f"{name}(") else "clause", syntax, meaning)
        for name, syntax, meaning in rows
    ]


def _types() -> list[WordEntry]:
    rows = [[plain_text(cell) for cell in row] for row in table(section_named("Notation"), "type")]
    return [WordEntry(name, "type", f"column {name}", meaning) for name, meaning in rows]


def _functions() -> list[WordEntry]:
    rows = [[plain_text(cell) for cell in row] for row in table(section_named("GROUP BY"), "aggregate")]
    found = [WordEntry(calls.partition("(")[0], "aggregate", calls, meaning) for calls, meaning in rows]
    found += [WordEntry(name, "function", *how) for name, how in functions.PLACES.items()]
    found += [
        WordEntry(name, "function", one.syntax, one.meaning) for name, one in functions.FUNCTIONS.items()
    ]
    for alias, name in functions.ALIASES.items():
        meant = functions.FUNCTIONS[name]
        found.append(WordEntry(alias, "function", meant.syntax, f"{meant.meaning}; another name of {name}"))
    return found


def _options() -> list[WordEntry]:
    found: dict[str, list[WordEntry]] = {}
    for owner, owned in options().items():
        for name, meaning in owned.items():
            place = _OWNERS.get(owner, f"FORMAT {owner} ({{}})").format(f"{name} => …")
            found.setdefault(name, []).append(WordEntry(name, "option", place, meaning))
    return [
        WordEntry(name, "option", "\n".join(one.syntax for one in places), "; ".join(_once(places)))
        for name, places in found.items()
    ]


def _once(places: list[WordEntry]) -> list[str]:
    return list(dict.fromkeys(one.meaning for one in places))


def _units() -> list[WordEntry]:
    base = {"duration": ("s", 1e6), "length": ("m", 1.0), "speed": ("m/s", 1.0), "size": ("bytes", 1.0)}
    entries = []
    for name, unit in UNITS.items():
        measured, size = base[unit.dimension]
        factor = unit.size / size
        others = f"; also written {', '.join(unit.aliases)}" if unit.aliases else ""
        meaning = f"{factor:g} {measured}{others}"
        entries += [
            WordEntry(word, f"unit of {unit.dimension}", f"10 {word}", meaning)
            for word in (name, *unit.aliases)
        ]
    return entries


def _settings() -> list[WordEntry]:
    return [
        WordEntry(
            key.name,
            "setting",
            f"SET {key.name} = …" if key.is_settable else key.variable,
            key.help + (f": {', '.join(key.choices)}" if key.choices else ""),
        )
        for key in KEYS
    ]
