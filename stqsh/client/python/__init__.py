"""The values of the Python API, for programs and notebooks.

result    what `Session.sql` returns
tail      `Session.tail`: updates one by one, as Python values
sources   `Session.stream_from`: streams of data in memory
tables    outcomes as Arrow tables
notebook  results as HTML
"""
