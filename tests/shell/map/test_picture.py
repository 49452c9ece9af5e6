"""stqsh.draw_map: a page as one picture."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from client.test_map import QUERIES, STREAM, run, write_cars
from support.local import local_session

import stqsh
from stqsh.errors import StqshError


def test_a_map_is_drawn_for_a_notebook_and_for_a_file(tmp_path: Path) -> None:
    with local_session(tmp_path, published=True) as session:
        run(session, STREAM.format(type="STRING", glob=write_cars(tmp_path)) + QUERIES.format(first="'0'"))
        run(session, "RUN 4 STEPS;")
        drawn = stqsh.draw_map(session, "cars", "low")
        assert (drawn.stream, drawn.step) == ("cars", 4)
        state = json.loads(re.findall(r'<script id="state"[^>]*>(.*?)</script>', drawn.html, re.DOTALL)[0])
        assert [query["name"] for query in state["queries"]] == ["low"]
        assert state["ended"].startswith("one picture") and state["past"]["changes"]["step"][0] == 1
        assert html.escape(drawn.html) in drawn._repr_html_()
        drawn.save(tmp_path / "map.html")
        assert (tmp_path / "map.html").read_text() == drawn.html
        with pytest.raises(StqshError, match="cannot write"):
            drawn.save(tmp_path / "nowhere" / "map.html")
        drawn.save(tmp_path / "map.html")  # a page may take the place of another one
        precious = tmp_path / "precious.txt"
        precious.write_text("mine")
        with pytest.raises(StqshError, match=r"precious.txt is there already and is not a map's page"):
            drawn.save(precious)
        assert precious.read_text() == "mine"
        with pytest.raises(StqshError, match="nothing"):
            stqsh.draw_map(session, "nothing")
