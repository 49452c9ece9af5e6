"""Spark: the session, its Java process and its Python workers."""
