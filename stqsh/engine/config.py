"""Settings of the engine: those that a session's profile gives, and tunables with their units and reasons."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from stqsh.profile import Profile
from stqsh.units import parse_size

STATE_FORMAT = 4
"""The format of all that slots keep and of the update log.

A new number refuses sessions whose state this version cannot read.
"""


@dataclass(frozen=True, slots=True)
class EngineTuning:
    """Tunables of the engine that no setting changes; tests pass others.

    Times are in seconds unless the name says otherwise; sizes are in bytes or in records, as named.
    """

    #: With nothing to do, Spark is answered after this time only: a question costs it ten times a look.
    idle_answer_s: float = 1.0
    #: How often the source looks for work meanwhile.
    idle_look_s: float = 0.02

    #: A slice of a store with fewer records is not worth a task of its own.
    slice_records: int = 50_000
    #: Slices of one stream in a batch at most: this many tasks read at once.
    slices: int = 2
    #: Records of a batch, times slots, up to which each slot reads for itself: reading beats a shuffle there.
    by_slot_records: int = 400_000

    #: A slot's log smaller than this is never worth a snapshot ...
    snapshot_log_bytes: int = 32 << 20
    #: ... unless replaying it takes longer than this, in microseconds, ...
    snapshot_replay_us: int = 3_000_000
    #: ... and than this many snapshots take to write: they cost a tenth of the kernels' time at most.
    snapshot_worth: int = 10
    #: Values in Spark's state store are cut into pieces of this size, which its buffers hold.
    state_piece_bytes: int = 4 << 20
    #: Free space that payloads on their way leave on their disk: the arena grows there, too.
    payload_reserve_bytes: int = 64 << 20

    #: How often the preparer looks for new streams and tables.
    prepare_look_s: float = 0.05
    #: How often a preparation writes its progress at most.
    prepare_report_s: float = 0.2
    #: An endless stream is made ahead of the clock by this many steps at least, ...
    ahead_steps: int = 120
    #: ... and by this many times the steps of the last batch, ...
    ahead_batches: int = 4
    #: ... unless this many records wait to be taken.
    ahead_records: int = 1_000_000

    #: Batches in the update log at most, however small: who reads it from its beginning opens each file.
    log_batches: int = 20_000
    #: How often the size of the update log is looked at.
    log_look_s: float = 5.0
    #: How nice the process is that compacts the update log.
    log_nice: int = 10

    #: Failures in a row without a batch in between after which a query is given up.
    query_attempts: int = 4
    #: How often the supervisor looks at Java's process.
    supervisor_look_s: float = 0.1
    #: The query itself is asked at one in this many looks: a call into Java is the dearest part of them.
    looks_per_query_check: int = 4
    #: How long a stop waits for the batch under way.
    stop_wait_s: float = 15.0
    #: How long Java may take to die after its first failed call.
    java_death_s: float = 2.0

    #: How often engine.json is written.
    heartbeat_s: float = 1.0
    #: How often the engine of a temporary session looks for its client.
    owner_look_s: float = 2.0
    #: How long a connection to a cluster's master may take.
    master_connect_s: float = 5.0


TUNING = EngineTuning()
"""The tunables of every engine."""


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
        """Return the same settings with another number of slots."""
        return replace(self, slots=slots)

    @property
    def max_bytes(self) -> int:
        """The most bytes of records that one batch takes in, as the replay stores have them.

        A batch lies several times in the memory of Spark's driver and workers, so it gets a sixteenth of it.
        """
        return parse_size(self.memory) // 16

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
