"""The errors of stqsh: the root class, its families, and the text of an error.

An error stores its parts (`message`, `hint`) as data; only `text` joins them. Errors that belong to one
module are defined there and derive from a family below; the language's errors, which also have a position
in a statement, are in `stqsh.lang.errors`.
"""

from __future__ import annotations

from typing import ClassVar

from stqsh.control_characters import escape_controls, shorten

#: The maximum number of characters shown of a message, because it may quote user data.
_LONGEST_MESSAGE = 1000


class StqshError(Exception):
    """An error that a user may see: what is wrong, where, and with which value.

    Attributes:
        message: One line that describes the problem.
        hint: The remedy, shown on a line of its own.
        exit_code: The exit code of a script that fails with this error.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def text(self, width: int | None = None) -> str:
        """Return the whole text, one line or more, without a newline at its end.

        Args:
            width: Width of the terminal in columns; an excerpt of a statement is cut to it.
        """
        del width
        message = for_people(self.message)
        return message if self.hint is None else f"{message}\nhint: {for_people(self.hint)}"

    def __str__(self) -> str:
        return self.text()


def for_people(text: str) -> str:
    """Return a message with bounded length and without control characters, because it may quote data."""
    return escape_controls(shorten(text, _LONGEST_MESSAGE))


class OtherVersionError(StqshError):
    """A session whose files have the format of another version of stqsh."""

    def __init__(self) -> None:
        super().__init__(
            "this session was begun by another version of stqsh: its state cannot be read",
            hint="go on with that version; or DUMP what the session defines, for a new one",
        )


class CommandLineError(StqshError):
    """A command line, or an argument of a backslash command, that is wrong."""

    exit_code = 2


class ProfileError(StqshError):
    """A profile that cannot be read, or that has an unknown key or a bad value."""

    exit_code = 2


class HomeError(StqshError):
    """A session home that cannot be created, read or written."""


class SessionNameError(HomeError):
    """A name for which there is no session, or which is not a valid session name."""

    exit_code = 2


class SlotStateError(StqshError):
    """A slot's state in shared memory that cannot be used now."""


class NotPublishedError(SlotStateError):
    """This host has no trustworthy state; the message has the reason."""


class EngineError(StqshError):
    """A failure of the engine or of a part of it."""


class EngineDeadError(EngineError):
    """The session's engine, which is needed, has stopped or failed."""


class SourceError(StqshError):
    """A source that cannot be read, such as a missing file or an unknown format."""


class OptionError(SourceError):
    """A source's option that does not exist, or that has a bad value.

    Attributes:
        option: The option's name; "" for the name of the source itself.
        is_unknown: Whether the name is wrong, rather than the value.
    """

    def __init__(
        self, message: str, option: str, *, is_unknown: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.option = option
        self.is_unknown = is_unknown
