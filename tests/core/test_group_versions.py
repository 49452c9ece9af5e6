"""The versions of groups are the same, whether they are numbered by a table or by a sort."""

import numpy as np
import pytest

from stqsh.core.groups import group_versions


@pytest.mark.parametrize(("groups", "span", "count"), [(0, 1, 0), (7, 1, 0), (40, 2, 40), (9, 60, 500)])
def test_versions_are_numbered_by_group_and_step(monkeypatch, groups, span, count):
    draw = np.random.default_rng(3)
    which = draw.integers(0, max(groups, 1), count).astype(np.int32)
    steps = draw.integers(1, max(span, 2), count)
    table = group_versions._numbered(groups, which, steps - 1, np.arange(span))
    monkeypatch.setattr(group_versions, "_SPARE", -(1 << 40))
    by_sort = group_versions._numbered(groups, which, steps - 1, np.arange(span))
    assert all((one == other).all() for one, other in zip(table, by_sort, strict=True))
    wanted = sorted({(g, 0) for g in range(groups)} | set(zip(which.tolist(), steps.tolist(), strict=True)))
    assert list(zip(table.group.tolist(), table.step.tolist(), strict=True)) == wanted
    assert [wanted[at] for at in table.at] == list(zip(which.tolist(), steps.tolist(), strict=True))
    assert table.start.tolist() == [*(at for at, (_, s) in enumerate(wanted) if not s), len(wanted)]
