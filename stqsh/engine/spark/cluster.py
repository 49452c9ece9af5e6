"""What is other where Spark runs on a cluster: the driver's address, and hosts that share only the home.

There the spool is off (`stqsh.engine.state.payload_files`): payloads go through Spark. Each slot's arena lies
in the shared memory of the host that has the slot, and is made anew from Spark's state store where the slot
moves on. Snapshots whose slots lie on other hosts go by way of the log (`stqsh.client.read.snapshots`).
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

from stqsh.engine.config import TUNING

LOOPBACK = "127.0.0.1"
STANDALONE = re.compile(r"spark://(?P<host>[^:/,]+):(?P<port>\d+)")


def driver_address(master: str) -> str:
    """Return the address at which executors find the driver: the one from which it reaches the master.

    The host's name, which Spark takes by itself, may stand for an address of another network, and a cluster
    on the loopback needs no other. "" leaves it to Spark: other masters have ways of their own,
    IPv6 is written in several ways, and a master that does not answer is told of elsewhere.
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


def prepare_host(home: str) -> None:
    """Make this host ready for a session, in a worker: its arena, and the kernels, compiled or loaded.

    Arenas of sessions that are gone are removed, since no client of theirs was ever on this host.
    """
    from stqsh.core import compile_kernels
    from stqsh.storage.arena_cleanup import claim_arena, remove_lost_arenas
    from stqsh.storage.home import SessionHome

    claim_arena(SessionHome(Path(home)))
    remove_lost_arenas()
    compile_kernels()
