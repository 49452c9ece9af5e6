"""Bind the definitions of CREATE: streams, tables, regions and sinks."""
