"""Hosts that share nothing with the driver but a URI: the same bytes as one machine prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clusters import cluster, start_hdfs
from support.local import local_session
from support.mixed import mixed_script
from support.running import run_script

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


def printed_by_one_machine(folder: Path, file: Path) -> bytes:
    with local_session(folder / "local", slots=2, published=True) as session:
        return run_script(session, file.read_text(encoding="utf-8"), file)


def test_all_kinds_of_questions_print_what_one_machine_prints(
    folder: Path, unpacked: Path, hdfs: None
) -> None:
    file = mixed_script(folder, seed=1)
    expected = printed_by_one_machine(folder, file)
    assert expected.count(b"\n") > 1000
    with cluster(folder, workers=2, binds={"stqsh": unpacked}) as made:
        settings = {"spark.pyspark.python": "/srv/stqsh/bin/python", "session.storage": start_hdfs(made)}
        assert made.run(made.profile("hosts", settings), file.read_text(encoding="utf-8")) == expected
        for host in made.workers.values():
            assert host.run("sh", "-c", f"ls -A {folder} || true") == "", "a host made a home of its own"
