"""What chunks and slot state look like to Spark; apart, because its short-lived helpers need no more."""

#: A chunk's columns, and `slot_key`, by which Spark groups.
SPARK_SCHEMA = (
    "slot int, stream int, kind string, part int, first_step bigint, last_step bigint, rows bigint, "
    "payload binary, slot_key int"
)
#: The kind of chunks that only tell where time went; Deliver reads them and keeps them out of the update log.
TIMING = "timing"

#: The variables of a slot in the state store: where it stands, and pieces of log and snapshot.
META_SCHEMA = (
    "version bigint, stamp string, "
    "log_bytes bigint, snapshot_bytes bigint, replay_us bigint, snapshot_us bigint"
)
PIECE_SCHEMA = "entry bigint, data binary"
