"""Where operators work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.engine.state.payload_files import PayloadFolders


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """Where operators work: the number of slots, and the folders of the arena on this machine.

    home: the session's directory, with the replay stores that slots' logs name. spool: where large payloads
    lie if driver and workers share the machine; None: they go through Spark.
    """

    slots: int
    arena: tuple[Path, ...]
    home: Path
    spool: PayloadFolders | None = None
