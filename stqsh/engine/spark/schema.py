"""Chunks and slot state as Spark's schemas; without imports, for Spark's short-lived helper processes."""

#: A chunk's columns, and `slot_key`, by which Spark groups.
SPARK_SCHEMA = (
    "slot int, stream int, kind string, phase int, piece int, number bigint, sender int, "
    "first_step bigint, last_step bigint, rows bigint, payload binary, slot_key int"
)
#: The variables of a slot in the state store: its version, and pieces of its log and snapshot.
META_SCHEMA = (
    "version bigint, stamp string, "
    "log_bytes bigint, snapshot_bytes bigint, replay_us bigint, snapshot_us bigint"
)
PIECE_SCHEMA = "entry bigint, data binary"
