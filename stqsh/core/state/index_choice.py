"""The indexes that the session of a slot has chosen, see `stqsh.spec.indexes`."""

from __future__ import annotations

import msgspec

from stqsh.core.state.slot_state import SlotState
from stqsh.spec.indexes import IndexChoice

_ENTRY = "indexes"


def chosen_indexes(state: SlotState) -> IndexChoice:
    """Return the choice that came with the last batch."""
    return msgspec.convert(state.header.get(_ENTRY, {}), IndexChoice)


def choose_indexes(state: SlotState, choice: IndexChoice) -> None:
    """Store the choice of a batch in the slot's header; the default choice needs no entry."""
    if choice == IndexChoice():
        state.header.pop(_ENTRY, None)
    else:
        state.header[_ENTRY] = msgspec.to_builtins(choice)
