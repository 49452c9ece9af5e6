"""The fixtures of a session whose engine is played by the test."""

from tests.support.session_fixtures import deliver, link, query, stream

__all__ = ["deliver", "link", "query", "stream"]
