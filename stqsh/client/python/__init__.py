"""The Python API's own values: what programs and notebooks work with.

result    what `Session.sql` returns
tail      `Session.tail`: updates one by one, in words
sources   `Session.stream_from`: streams of data in memory
tables    outcomes as Arrow tables
notebook  results as HTML
"""
