"""What an interrupted statement leaves behind: whether it is done, and what is not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stqsh.storage.control_log import last_seq

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.lang.ast.statements import Statement

_WORDS = 4


class InterruptNotice:
    """What is to be said where Ctrl-C ends the wait for a statement of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._statements: list[Statement] = []
        self._number = self._logged = 0

    def begin(self, statements: list[Statement], number: int) -> None:
        """The statement of that number, from 1, begins."""
        self._statements, self._number = statements, number
        self._logged = last_seq(self._session.link.db)

    def text(self) -> str:
        """Whether the statement is done, and what becomes of those behind it."""
        name = " ".join(self._statements[self._number - 1].text.split()[:_WORDS])
        done = f"interrupted: {name} … is {'done' if self._is_logged() else 'not done'}"
        return "; ".join(filter(None, [done, self.rest_text(), "queries and streams go on"]))

    def rest_text(self) -> str:
        """What becomes of the statements behind the one that was stopped; "" where there are none."""
        rest = len(self._statements) - self._number
        if not rest:
            return ""
        return (
            "the statement after it is not run"
            if rest == 1
            else f"the {rest} statements after it are not run"
        )

    def _is_logged(self) -> bool:
        """Whether the session was asked for anything that changes it since the statement began."""
        rows = self._session.link.db.query(
            "SELECT 1 FROM log WHERE seq > ? AND kind <> 'ask' LIMIT 1", self._logged
        )
        return bool(rows)
