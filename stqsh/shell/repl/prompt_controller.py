"""The prompt for a session that a thread opens and watches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from prompt_toolkit.enums import EditingMode

from stqsh.control_characters import escape_controls
from stqsh.shell.messages import NOTICES
from stqsh.shell.repl.completion.completer import StqlCompleter
from stqsh.shell.repl.prompt import make_prompt, open_history, say_above
from stqsh.shell.repl.session_thread import SessionSummary, SessionThread
from stqsh.shell.user_files import state_folder

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import Application

    from stqsh.client.api import Session
    from stqsh.storage.sinks.notices import Notice


class PromptController:
    """Reads the user's input, and redraws the prompt when the session changes.

    `is_cut` returns whether the last answer was shown without some of its columns.

    Attributes:
        backend: Opens and watches the session.
        is_death_shown: Whether the end of the engine has been shown to the user.
    """

    def __init__(
        self,
        name: str,
        open_session: Callable[[], Session],
        tell: Callable[[str], None],
        is_cut: Callable[[], bool] = bool,
    ) -> None:
        self.backend = SessionThread(name, open_session, self._redraw, self._hear)
        self.is_death_shown = False
        self._tell, self._is_cut = tell, is_cut
        self._prompt: PromptSession[str] | None = None

    @property
    def summary(self) -> SessionSummary:
        """The latest summary of the session."""
        return self.backend.summary

    def prompt(self) -> PromptSession[str]:
        """Return the prompt, created by the first call. Raises `HomeError` if the history has no folder."""
        if self._prompt is not None:
            return self._prompt
        self._prompt = prompt = make_prompt(
            open_history(state_folder() / "history"),
            StqlCompleter(lambda: self.summary, self._live_values),
            lambda: self.summary,
            self._is_cut,
        )
        # Start after the first drawing, because the session's imports would delay the prompt.
        prompt.app.after_render += lambda _: self.backend.start()
        prompt.app.key_processor.after_key_press += lambda _: self.backend.typed()
        return prompt

    def _live_values(self, stream: str, column: str, prefix: str) -> tuple[str, ...]:
        return self.backend.live_values(stream, column, prefix)

    def connect(self, name: str, open_session: Callable[[], Session]) -> None:
        """Open another session and leave this one. If that raises an error, this session stays."""
        other = SessionThread(name, open_session, self._redraw, self._hear)
        try:
            other.session()
        except BaseException:
            other.close()
            raise
        self.backend.close()
        self.backend, self.is_death_shown = other, False
        self._redraw()

    def _redraw(self) -> None:
        """Show changes, or raise the session's error in the prompt; called in the session thread."""
        app = None if self._prompt is None else self._prompt.app
        if app is not None:
            app.editing_mode = EditingMode.VI if self.summary.editing == "vi" else EditingMode.EMACS
        if app is None or not app.is_running:
            return
        # The prompt and its loop may end at any moment; the next prompt shows the latest summary.
        with suppress(RuntimeError):
            self._show_death(app)
            error = self.backend.error
            if error is not None and app.loop is not None:
                app.loop.call_soon_threadsafe(lambda: app.exit(exception=error))
            app.invalidate()

    def _hear(self, notice: Notice) -> None:
        """Print an alert's message above the prompt; an open view shows it itself later."""
        said = escape_controls(notice.text)  # it quotes keys and values
        text = f"\a{said}" if notice.bell else said
        app = None if self._prompt is None else self._prompt.app
        if app is not None and app.is_running and app.loop is not None:
            with suppress(RuntimeError):  # the prompt has just ended
                app.loop.call_soon_threadsafe(say_above, app, lambda: self._tell(text))
                return
        NOTICES.append(text)

    def _show_death(self, app: Application[str]) -> None:
        """Print above the prompt, once, that the engine has ended and why."""
        death = self.summary.death
        if death and not self.is_death_shown and app.loop is not None:
            app.loop.call_soon_threadsafe(say_above, app, lambda: self._tell(death))
        self.is_death_shown = bool(death)
