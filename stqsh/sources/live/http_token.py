"""The token of an HTTP stream: clients that post records to its port must know it.

It is in a file of the stream's folder, which only the session's user can read, and nowhere else: not in the
control log, nor in DUMP. It stays the same as long as the stream lives.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from stqsh.fs import atomic_write, file_lock

HOST = "127.0.0.1"
"""Where HTTP streams listen."""
_TOKEN, _LOCK = "token", "token.lock"


def token_of(folder: Path) -> str:
    """Return the token of the stream with this folder; the first who asks makes it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / _TOKEN
    with file_lock(folder / _LOCK):
        if not path.exists():
            atomic_write(path, secrets.token_urlsafe(24).encode(), private=True)
        return path.read_text("ascii")
