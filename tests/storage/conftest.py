"""The fixtures of a session whose engine is played by the test."""

from tests.support.session_fixtures import connection, deliver, query, stream

__all__ = ["connection", "deliver", "query", "stream"]
