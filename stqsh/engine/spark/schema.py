"""Chunks and slot state as Spark's schemas; without imports, for Spark's short-lived helper processes."""

#: A chunk's columns, and `slot_key`, by which Spark groups.
SPARK_SCHEMA = (
    "slot int, stream int, kind string, phase int, piece int, number bigint, sender int, "
    "first_step bigint, last_step bigint, rows bigint, payload binary, slot_key int"
)
#: A slot's variable in the state store.
HEAD_SCHEMA = "head binary"
