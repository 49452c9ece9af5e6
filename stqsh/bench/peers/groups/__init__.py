"""Compare aggregates of each minute with those of DuckDB, PostGIS, PySpark and Flink SQL."""
