"""Render outcomes, by kind: one dispatch for the prompt and for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stqsh.client import results
from stqsh.client.read.subscription import Subscription
from stqsh.client.read.watch import WatchFeed
from stqsh.client.run import RunHandle

if TYPE_CHECKING:
    from stqsh.client.map.scene import MapFeed
    from stqsh.client.results import Outcome, WaitNotice
    from stqsh.shell.writers.opening import Data


class OutcomeRenderer(Protocol):
    """Renders outcomes, one method for each kind. Each may raise `StqshError`."""

    def wait(self, notice: WaitNotice) -> None:
        """Perform the wait that a notice announces."""

    def message(self, text: str) -> None:
        """Show a message."""

    def data(self, data: Data) -> None:
        """Write rows or a script."""

    def follow(self, subscription: Subscription) -> None:
        """Show a query's updates until it ends or the user leaves."""

    def watch(self, feed: WatchFeed) -> None:
        """Show the dashboard of WATCH."""

    def run(self, handle: RunHandle) -> bool:
        """Wait for a RUN; return False if the user interrupted it."""

    def map(self, feed: MapFeed) -> None:
        """Draw or write a map."""


def render(outcome: Outcome, renderer: OutcomeRenderer) -> bool:
    """Render one outcome; return False if the user interrupted it, so that the rest is not run."""
    match outcome:
        case results.WaitNotice():
            renderer.wait(outcome)
        case results.Message():
            renderer.message(outcome.text)
        case results.Rows() | results.Answer() | results.Script():
            renderer.data(outcome)
        case Subscription():
            renderer.follow(outcome)
        case WatchFeed():
            renderer.watch(outcome)
        case RunHandle():
            return renderer.run(outcome)
        case _:
            renderer.map(outcome)
    return True
