"""What the engine is told at its start: the session's home and the profile's settings for Spark."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from stqsh.profile import Profile

STATE_FORMAT = 3
"""Of all that slots keep, whatever kind of query has put it there: another number where what was kept before
cannot be gone on with.
"""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is started with.

    The session's home, Spark's master URL, the number of slots, the memory of the driver, the most records of
    a batch, the least bytes of a payload that goes through a file, further options for Java, and memory and
    cores of a cluster's executors ("": as the cluster has it).
    """

    home: Path
    master: str = "local[2,4]"
    slots: int = 2
    memory: str = "2g"
    max_records: int = 2_000_000
    spool_bytes: int = 16_384
    java_options: tuple[str, ...] = ()
    executor_memory: str = ""
    executor_cores: str = ""

    @staticmethod
    def from_profile(home: Path, profile: Profile) -> EngineSettings:
        """Take the engine's part of a profile."""
        return EngineSettings(
            home=home,
            master=profile.text("spark.master"),
            slots=profile.number("engine.slots"),
            memory=profile.text("engine.memory"),
            max_records=profile.number("engine.max_records_per_batch"),
            spool_bytes=profile.number("engine.spool_bytes"),
            executor_memory=profile.text("spark.executor.memory"),
            executor_cores=profile.text("spark.executor.cores"),
        )

    def with_slots(self, slots: int) -> EngineSettings:
        """Give the same settings with another number of slots."""
        return replace(self, slots=slots)

    @property
    def max_bytes(self) -> int:
        """The most bytes of records that one batch takes in, as the replay stores have them.

        A batch lies several times in the memory of Spark's driver and workers, so it gets a sixteenth of it.
        """
        unit = {"k": 10, "m": 20, "g": 30, "t": 40}[self.memory[-1].lower()]
        return (int(self.memory[:-1]) << unit) // 16

    @property
    def local(self) -> bool:
        """Whether driver and executors are one process on this machine."""
        return self.master.startswith("local[") or self.master == "local"

    @property
    def state(self) -> str:
        """Where slots keep their state, in "files" of the home or with "spark", and in which format."""
        return f"{'files' if self.local else 'spark'}/{STATE_FORMAT}"

    @property
    def scratch(self) -> Path:
        """The directory for Spark's temporary files; its path is short, as Unix sockets need."""
        digest = hashlib.sha256(bytes(self.home.absolute())).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"stqsh-{os.getuid()}-{digest}"
