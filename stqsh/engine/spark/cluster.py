"""What differs where Spark runs on a cluster: the driver's address, and hosts that share only the home.

There the spool is off (`stqsh.engine.state.payload_files`): payloads go through Spark. Each slot's arena is
in the shared memory of the slot's host, and is rebuilt from Spark's state store when the slot moves.
Snapshots whose slots are on other hosts go through the log (`stqsh.client.read.snapshots`).
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

from stqsh.core import compile_kernels
from stqsh.engine.config import TUNING
from stqsh.storage.arena_cleanup import remove_lost_arenas
from stqsh.storage.private_files import make_private_folder

LOOPBACK = "127.0.0.1"
STANDALONE = re.compile(r"spark://(?P<host>[^:/,]+):(?P<port>\d+)")


def driver_address(master: str) -> str:
    """Return the address at which executors find the driver: the one from which it reaches the master.

    Spark's own choice, the host's name, may be an address of another network; a cluster on the loopback needs
    no other. "" leaves the choice to Spark: for other kinds of master, for IPv6, which is written in several
    ways, and for a master that does not answer, which is reported elsewhere.
    """
    if master.startswith("local-cluster["):
        return LOOPBACK
    named = STANDALONE.match(master)
    if named is None:
        return ""
    try:
        with socket.create_connection(
            (named["host"], int(named["port"])), TUNING.master_connect_s
        ) as reached:
            address = str(reached.getsockname()[0])
    except OSError:
        return ""
    return "" if ":" in address else address


def prepare_host(arena: str) -> None:
    """Make this host ready for a session, in a worker: its arena, and the kernels, compiled or loaded.

    Arenas of dead sessions are removed, because no client of theirs was ever on this host. The session's own
    names no home, as this host need not see it: it is removed once it has not been used for a day.
    """
    make_private_folder(Path(arena))
    remove_lost_arenas()
    compile_kernels()
