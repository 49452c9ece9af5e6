"""Settings of the engine: the engine's part of a profile, and tunables with their units and reasons."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.storage.blobs import Blobs, home_blobs, open_blobs
from stqsh.storage.home import SessionHome
from stqsh.units import parse_size

if TYPE_CHECKING:
    from stqsh.profile import Profile, Value

CRASHED = 75
"""The exit code of an engine that a restart may help. An engine that no restart helps exits with 1."""

STATE_FORMAT = 5
"""The format of the slots' state and of the update log.

A new number refuses sessions whose state this version cannot read.
"""
STATE_FORMATS = {"files": STATE_FORMAT, "spark": 6}
"""The format of slot state, with heads in files and with heads in Spark's state store."""


STACKS_SIGNAL = signal.SIGUSR2
"""The signal on which the engine and its Python workers print the stacks of their threads to the log."""


@dataclass(frozen=True, slots=True)
class EngineTuning:
    """Tunables of the engine that no setting changes; tests pass others.

    Times are in seconds and sizes in bytes or records, unless the name says otherwise.
    """

    #: How long a call from Spark waits while there is nothing to do: a call costs ten times a check for work.
    idle_answer_s: float = 1.0
    #: How often the source checks for work during that wait.
    idle_look_s: float = 0.02

    #: A slice of a store with fewer records is not worth a task of its own.
    slice_records: int = 50_000
    #: The minimum number of messages for a slice of a live stream.
    slice_messages: int = 5_000
    #: Maximum number of slices of one stream in a batch, which tasks read in parallel: Spark's cores.
    slices: int = 2
    #: Up to this many records times slots, each slot's task reads all records: that is faster than a shuffle.
    by_slot_records: int = 400_000
    #: With at most this many slots, each slot's task reads all records of stores, whatever their number.
    by_slot_slots: int = 4
    #: The same limit for messages of live streams: one takes ten times as long as a stored record.
    by_slot_messages: int = 20_000
    #: The same limit for decoded messages, which slots map and a shuffle would copy.
    by_slot_decoded: int = 4_000_000
    #: With at most this many slots, each slot finds by itself its additional queries under a new routing.
    by_slot_routed: int = 2
    #: Event streams with at least this many records start with the cheapest strategy; the choice takes up to
    #: 0.5 s.
    chosen_records: int = 100_000

    #: While objects or queries may be shed, the load is checked every so many steps, where batches end.
    shedding_steps: int = 10

    #: A slot's log smaller than this is never worth a snapshot ...
    snapshot_log_bytes: int = 32 << 20
    #: ... unless replaying it takes longer than this, in microseconds, ...
    snapshot_replay_us: int = 3_000_000
    #: ... and longer than writing this many snapshots: these cost at most a tenth of the kernels' time.
    snapshot_worth: int = 10
    #: Smaller payloads go through Spark on a cluster: a request to its storage takes some ms.
    blob_bytes: int = 64 << 10
    #: Free space that payloads in transit leave on their disk, because the arena also grows there.
    payload_reserve_bytes: int = 64 << 20

    #: How often the preparer checks for new streams and tables.
    prepare_look_s: float = 0.05
    #: How long the preparer waits after an unexpected error, such as a full disk.
    prepare_retry_s: float = 5.0
    #: A stream or table with more bytes of text than this is prepared in a process of its own.
    process_bytes: int = 32 << 20
    #: How often the preparer checks the stores of dropped streams.
    dropped_look_s: float = 5.0
    #: Minimum time between two reports of a preparation's progress.
    prepare_report_s: float = 0.2
    #: An endless stream is generated ahead of the clock by at least this many steps, ...
    ahead_steps: int = 120
    #: ... and by this many times the steps of the last batch, ...
    ahead_batches: int = 4
    #: ... unless this many records wait to be taken.
    ahead_records: int = 1_000_000

    #: Maximum number of batches in the update log, because reading it from the beginning opens every file.
    log_batches: int = 20_000
    #: How often the size of the update log is checked.
    log_look_s: float = 5.0
    #: How long compaction waits for readers that started in the meantime.
    log_wait_s: float = 10.0
    #: How long to wait before the update log is compacted again after a failure.
    log_retry_s: float = 600.0
    #: Niceness of the process that compacts the update log.
    log_nice: int = 10

    #: Number of consecutive failures without a batch after which the engine gives a query up.
    query_attempts: int = 4
    #: The same for failures because Python workers do not start within 10 s, as on a busy machine.
    late_attempts: int = 20
    #: How long a query waits before it is started again for a source that did not answer.
    source_wait_s: float = 1.0
    #: How often the supervisor checks Java's process.
    supervisor_look_s: float = 0.1
    #: One in this many checks also queries Spark, because a call into Java is expensive.
    looks_per_query_check: int = 4
    #: How long a stop waits for the current batch.
    stop_wait_s: float = 15.0
    #: How long Java may take to die after its first failed call.
    java_death_s: float = 2.0

    #: A batch hangs if it takes longer than this, ...
    hung_batch_s: float = 60.0
    #: ... and than this many times the last one, ...
    hung_batch_times: float = 20.0
    #: ... and its workers have been idle for this long, ...
    hung_idle_s: float = 10.0
    #: ... which means that they use less than this share of a core.
    hung_share: float = 0.05
    #: With busy workers, a batch hangs after this many times as long.
    hung_busy_times: float = 20.0
    #: How often the watchdog checks a batch.
    watch_look_s: float = 1.0

    #: Number of restarts after a crash without a batch in between, after which an engine is given up.
    restarts: int = 5
    #: The wait before the second of these restarts; each further one waits twice as long, ...
    restart_wait_s: float = 1.0
    #: ... but at most this long. The first follows at once.
    restart_wait_most_s: float = 60.0
    #: An engine that has run this long without a batch has not crashed because of one: its count restarts.
    restart_calm_s: float = 600.0
    #: How often the parent checks whether the engine's heartbeat has advanced.
    silence_look_s: int = 20
    #: Number of such checks without a heartbeat after which the engine is killed and restarted.
    silence_looks: int = 4

    #: How often the engine of a cluster checks for snapshots, ...
    located_look_s: float = 0.005
    #: ... how many it answers at a time, ...
    located_asks: int = 4
    #: ... how long it waits before it retries while a batch is in progress, ...
    located_again_s: float = 0.02
    #: ... how long it keeps retrying, ...
    located_wait_s: float = 10.0
    #: ... and how often it retries if a slot's executor is gone or busy.
    located_attempts: int = 3

    #: How often engine.json is written.
    heartbeat_s: float = 1.0
    #: How often the engine of a temporary session checks whether its client lives.
    owner_look_s: float = 2.0
    #: How often the engine checks whether the process of the sinks runs.
    sinks_look_s: float = 0.25
    #: How long a connection to a cluster's master may take.
    master_connect_s: float = 5.0


TUNING = EngineTuning()
"""The tunables of every engine."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings with which an engine is started.

    Attributes:
        home: the session's directory.
        master: Spark's master URL.
        slots: the number of slots.
        memory: the memory of the driver.
        max_records: the maximum number of records in a batch.
        spool_bytes: payloads of at least this size go through a file.
        java_options: further options for Java.
        storage: the URI of the session's files, which ends in its uuid; "" if they are in its home.
        executor_memory: the memory of a cluster's executors; "" keeps the cluster's default.
        executor_cores: the cores of a cluster's executors; "" keeps the cluster's default.
        durability: which failures the session survives: the value of the setting, which executors also get.
        secret: the secret with which processes of a standalone cluster authenticate; "" without
            authentication.
        of_spark: Spark's own settings from the profile, each with its position there.
    """

    home: Path
    master: str = "local[2,4]"
    slots: int = 2
    memory: str = "2g"
    max_records: int = 2_000_000
    spool_bytes: int = 16_384
    java_options: tuple[str, ...] = ()
    storage: str = ""
    executor_memory: str = ""
    executor_cores: str = ""
    durability: str = "process"
    secret: str = field(default="", repr=False)
    of_spark: Mapping[str, Value] = field(default_factory=dict, repr=False)

    @staticmethod
    def from_profile(home: Path, profile: Profile) -> EngineSettings:
        """Return the engine's part of a profile."""
        return EngineSettings(
            home=home,
            master=profile.text("spark.master"),
            slots=profile.number("engine.slots"),
            memory=profile.text("engine.memory"),
            max_records=profile.number("engine.max_records_per_batch"),
            storage=profile.text("session.storage"),
            spool_bytes=profile.number("engine.spool_bytes"),
            executor_memory=profile.text("spark.executor.memory"),
            executor_cores=profile.text("spark.executor.cores"),
            durability=profile.text("durability"),
            secret=profile.text("spark.authenticate.secret"),
            of_spark=profile.of_spark(),
        )

    def with_slots(self, slots: int) -> EngineSettings:
        """Return the same settings with another number of slots."""
        return replace(self, slots=slots)

    def for_session(self, name: str) -> EngineSettings:
        """Return the settings with the storage of a session: its uuid below the profile's storage.

        Raises:
            StorageError: the URI names an unknown store, or contains credentials.
        """
        if not self.storage:
            return self
        return replace(self, storage=open_blobs(self.storage).below(name).uri)

    @property
    def max_bytes(self) -> int:
        """The maximum size of a batch's records, in bytes as stored in the replay stores.

        The driver and the workers hold several copies of a batch, so it gets a sixteenth of the driver's
        memory. On a cluster each slot processes its part on a core of its own, and gets a quarter of that.
        """
        each = parse_size(self.memory) // 16
        return each if self.local else each * max(1, self.slots // 4)

    @property
    def local(self) -> bool:
        """Whether driver and executors are one process on this machine."""
        return self.master.startswith("local[") or self.master == "local"

    @property
    def blob_bytes(self) -> int:
        """The minimum size of a payload that goes through a blob. Blobs take longer to read than files."""
        return max(self.spool_bytes, TUNING.blob_bytes)

    @property
    def blobs(self) -> Blobs:
        """The session's files, as workers access them."""
        return open_blobs(self.storage, self.cache) if self.storage else home_blobs(self.home)

    @property
    def cache(self) -> str:
        """The folder for this machine's copies of blobs; "" on a cluster, whose hosts choose their own."""
        return str(self.scratch / "blobs") if self.local else ""

    @property
    def state(self) -> str:
        """The location of the slots' heads ("files", or "spark" for Spark's state store), and the format."""
        kind = "files" if self.local else "spark"
        return f"{kind}/{STATE_FORMATS[kind]}"

    @property
    def scratch(self) -> Path:
        """The folder for Spark's temporary files, once the engine has made it."""
        return SessionHome(self.home).scratch
