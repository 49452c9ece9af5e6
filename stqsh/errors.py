"""The one root of every error that a user of stqsh may see.

An error carries its parts (`message`, `hint`) as data, and its text is built here and nowhere else. The
language's errors, which also know a place in a statement, are in `stqsh.lang.errors`.
"""

from __future__ import annotations

from typing import ClassVar


class StqshError(Exception):
    """Something that the user should know, in one line: what, where, what was given.

    `hint` is the remedy, shown on a line of its own. `exit_code` is what a script run ends with.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def text(self, width: int | None = None) -> str:
        """The whole text, of one line or more, without a newline at its end.

        `width`: of the terminal; an excerpt that is shown is cut to it. Nothing else is folded here.
        """
        del width
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"

    def __str__(self) -> str:
        return self.text()


class NotSupported(StqshError):
    """A part of the language that has not come yet: `not supported yet: …`, and nothing else.

    `what` names the part; the words before it are put there by this class alone.
    """

    exit_code = 2

    def __init__(self, what: str) -> None:
        super().__init__(f"not supported yet: {what}")
        self.what = what


class HomeError(StqshError):
    """A session home that cannot be made, read or written."""


class BadSessionName(HomeError):
    """A name that no session has, or can have."""

    exit_code = 2


class EngineDead(StqshError):
    """The session's engine has stopped, or failed, and something needs it."""


class SourceError(StqshError):
    """A source that cannot be read: a missing file, an unknown format."""


class OptionError(SourceError):
    """An option of a source that there is not, or whose value makes no sense.

    `option` names it, "" for the source's own name; `is_unknown`: it is the name that is wrong.
    """

    def __init__(
        self, message: str, option: str, *, is_unknown: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.option = option
        self.is_unknown = is_unknown


class ProfileError(StqshError):
    """A profile that cannot be read, or one with an unknown key or a bad value."""

    exit_code = 2
