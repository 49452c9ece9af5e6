"""The binder of what CREATE defines: streams, tables, regions and sinks."""
