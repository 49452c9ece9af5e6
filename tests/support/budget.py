"""How many examples a property gets: a share of the profile's, never so few that it says nothing."""

from __future__ import annotations

from hypothesis import settings

LEAST = 12


def share(part: int, least: int = LEAST) -> settings:
    """A `part`-th of the profile's examples; for properties that are slow, or that others cover as well.

    They are at least `least`, or a tenth of the profile's where that is less.
    """
    examples = settings().max_examples
    return settings(max_examples=max(min(least, examples // 10), examples // part))


def times(factor: int) -> settings:
    """Some times the profile's examples; for properties that are quick."""
    return settings(max_examples=factor * settings().max_examples)
