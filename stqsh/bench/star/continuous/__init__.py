"""Continuous aggregates of STAR section 5, on arrays: indexes of queries, and ways to keep up their results.

An index finds the queries that a record satisfies, and an upkeep counts the record in their results, and
answers them when they are due. All indexes find the same, so the two are timed one by one.
"""
