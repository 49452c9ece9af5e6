"""Measure aggregates of each minute beside DuckDB, PostGIS, PySpark and Flink SQL."""
