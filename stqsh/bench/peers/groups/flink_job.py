"""Answer aggregates of each minute in Flink SQL: a program for the Python that has PyFlink.

Two files of posts, half of them each in the order of time, are read in parallel. A pandas UDF looks each
post up in a shapely STRtree of the squares; Flink's windowed aggregation counts and averages by minute,
square and topic. A minute is sent once both files have passed its end. Flink prints each row of the answer
as `+I[minute, query, topic, n, mean]`.

python flink_job.py FOLDER: FOLDER has squares.csv and posts/*.csv.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import shapely
from pyflink.common import Configuration
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import ScalarFunction, udf

CORES = 2
POSTS = """
CREATE TABLE posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP(3), topic STRING, len DOUBLE,
  WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{folder}/posts', 'format' = 'csv')
"""
SHOWN = """
CREATE TABLE shown (since TIMESTAMP(3), query INT, topic STRING, n BIGINT, mean DOUBLE)
WITH ('connector' = 'print')
"""
FOUND = """
CREATE VIEW found AS
SELECT ts, topic, len, query FROM posts CROSS JOIN UNNEST(squares_around(x, y)) AS squares (query)
"""
ANSWER = """
INSERT INTO shown
SELECT window_start, query, topic, COUNT(*), AVG(len)
FROM TABLE(TUMBLE(TABLE found, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, query, topic
"""


class SquaresAround(ScalarFunction):  # type: ignore[misc]  # untyped here
    """Find the squares that hold each of many places."""

    def __init__(self, file: str) -> None:
        self._file = file

    def open(self, function_context: Any) -> None:
        """Build the index."""
        x1, y1, x2, y2 = np.loadtxt(self._file, delimiter=",", ndmin=2)[:, 1:].T
        self._tree = shapely.STRtree(shapely.box(x1, y1, x2, y2))

    def eval(self, x: Any, y: Any) -> Any:
        """Return the numbers of the squares around each place."""
        places, squares = self._tree.query(shapely.points(x, y), predicate="intersects")
        return pd.Series(np.split(squares.astype(np.int32), np.searchsorted(places, np.arange(1, len(x)))))


def main(folder: Path) -> None:
    """Build the job and run it to its end."""
    settings = Configuration()
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_string("taskmanager.memory.process.size", "4g")
    settings.set_string("parallelism.default", str(CORES))
    settings.set_string("table.local-time-zone", "UTC")
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )
    around = udf(
        SquaresAround(str(folder / "squares.csv")),
        result_type=DataTypes.ARRAY(DataTypes.INT()),
        func_type="pandas",
    )
    tables.create_temporary_function("squares_around", around)
    for statement in (POSTS.format(folder=folder), SHOWN, FOUND):
        tables.execute_sql(statement)
    tables.execute_sql(ANSWER).wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
