"""The message after an interrupted statement: whether it took effect, and what is not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stqsh.storage.control_log import last_seq

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.lang.ast.statements import Statement

_WORDS = 4


class InterruptNotice:
    """Makes the message for Ctrl-C while a statement of `session` is executed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._statements: list[Statement] = []
        self._number = self._logged = 0

    def begin(self, statements: list[Statement], number: int) -> None:
        """Note that a statement begins; `number` counts from 1."""
        self._statements, self._number = statements, number
        self._logged = last_seq(self._session.link.db)

    def text(self) -> str:
        """Return whether the statement is done, and what happens to those after it."""
        name = " ".join(self._statements[self._number - 1].text.split()[:_WORDS])
        done = f"interrupted: {name} … is {'done' if self._is_logged() else 'not done'}"
        return "; ".join(filter(None, [done, self.rest_text(), "queries and streams go on"]))

    def rest_text(self) -> str:
        """Return what happens to the statements after the one that was stopped; "" where there are none."""
        rest = len(self._statements) - self._number
        if not rest:
            return ""
        return (
            "the statement after it is not run"
            if rest == 1
            else f"the {rest} statements after it are not run"
        )

    def _is_logged(self) -> bool:
        """Return whether the session's log has a change since the statement began."""
        rows = self._session.link.db.query(
            "SELECT 1 FROM log WHERE seq > ? AND kind <> 'ask' LIMIT 1", self._logged
        )
        return bool(rows)
