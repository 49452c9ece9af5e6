"""Alerts: which updates they act on, what their actions get, and that failures delay nobody."""

from __future__ import annotations

import errno
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.local import LocalConnection
from support.sinks import Line, printed_log, run_text, runner_of

from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Rows, Script, Updates
from stqsh.errors import StqshError
from stqsh.lang.errors import BindError
from stqsh.profile import load_profile
from stqsh.sinks import alert_target, sink_runner
from stqsh.sinks.alert_target import AlertFailedError, run_command
from stqsh.sinks.http_target import HttpTarget
from stqsh.storage.sinks.notices import NoticeReader
from stqsh.storage.sinks.sink_position import SinkPosition, write_position


@pytest.fixture
def allowed(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Session]:
    """The same session for a client that may make alerts that run commands."""
    monkeypatch.chdir(tmp_path)
    assert isinstance(session.connection, LocalConnection)
    yield Session(
        session.home, load_profile(None, {}), autoplay=False, allow_run=True, connection=session.connection
    )


def lines(log: bytes) -> list[Line]:
    return [json.loads(line) for line in log.splitlines()]


def due(updates: list[Line], every_s: float) -> list[Line]:
    """Return the updates that an alert acts on."""
    found: list[Line] = []
    for update in updates:
        second = int(update["at"][17:19])
        if not found or second - int(found[-1]["at"][17:19]) >= every_s:
            found.append(update)
    return found


def shown(session: Session) -> list[dict[str, Any]]:
    [rows] = session.execute("SHOW ALERTS;")
    assert isinstance(rows, Rows)
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


@pytest.mark.parametrize(
    ("clause", "ops", "every_s"), [("", "+-", 1), ("ENTER EVERY 7 s", "+", 7), ("LEAVE", "-", 1)]
)
def test_a_command_gets_the_first_update_of_each_every(
    allowed: Session, tmp_path: Path, clause: str, ops: str, every_s: float
) -> None:
    run_text(allowed, f"CREATE ALERT a ON west {clause} DO RUN 'cat >> out.jsonl';")
    updates = lines(printed_log(allowed, "RUN;"))
    assert runner_of(allowed, "a").step()
    candidates = [one for one in updates if one["query"] == "west" and one["op"] in ops]
    wanted = due(candidates, every_s)
    assert lines((tmp_path / "out.jsonl").read_bytes()) == wanted
    assert 5 < len(wanted) < len(candidates)
    [alert] = shown(allowed)
    assert (alert["done"], alert["held back"], alert["failed"]) == (
        len(wanted),
        len(candidates) - len(wanted),
        0,
    )
    assert (alert["query"], alert["do"], alert["last error"]) == ("west", "run cat >> out.jsonl", None)


def test_what_was_there_before_the_alert_does_not_count(allowed: Session, tmp_path: Path) -> None:
    run_text(allowed, "RUN 30 STEPS;")
    run_text(allowed, "CREATE ALERT a ON west ENTER DO RUN 'cat >> out.jsonl';")
    assert runner_of(allowed, "a").step()
    assert not (tmp_path / "out.jsonl").exists()
    printed_log(allowed, "RUN;")
    assert runner_of(allowed, "a").step()
    assert {one["step"] for one in lines((tmp_path / "out.jsonl").read_bytes())} == set(range(31, 61))


def test_it_acts_on_the_updates_of_a_subscription(allowed: Session, tmp_path: Path) -> None:
    [following] = allowed.execute("SUBSCRIBE SELECT id FROM m WHERE x < 2;")
    assert isinstance(following, Subscription)
    name = following.query.name
    run_text(allowed, f"CREATE ALERT a ON {name} DO RUN 'cat >> out.jsonl';")
    run_text(allowed, "CREATE ALERT all_of_west ON west DO RUN 'cat >> west.jsonl';")
    wanted = due([one for one in lines(printed_log(allowed, "RUN;")) if one["query"] == name], 1)
    assert runner_of(allowed, "a").step() and runner_of(allowed, "all_of_west").step()
    assert lines((tmp_path / "out.jsonl").read_bytes()) == wanted != []
    assert name not in (tmp_path / "west.jsonl").read_text()
    following.close()


def test_an_update_is_acted_on_once_though_its_process_dies(allowed: Session, tmp_path: Path) -> None:
    run_text(allowed, "CREATE ALERT a ON west ENTER DO RUN 'cat >> out.jsonl';")
    printed_log(allowed, "RUN;")
    assert runner_of(allowed, "a").step()
    once = (tmp_path / "out.jsonl").read_bytes()
    [alert] = allowed.connection.db.query("SELECT id FROM sinks")
    write_position(allowed.home, alert[0], SinkPosition())  # its position was not written before it died
    assert runner_of(allowed, "a").step()
    assert (tmp_path / "out.jsonl").read_bytes() == once


def test_a_failing_action_is_counted_and_shown(allowed: Session) -> None:
    run_text(allowed, "CREATE ALERT bad ON west ENTER EVERY 5 s DO RUN 'echo no luck >&2; exit 3';")
    run_text(allowed, "CREATE ALERT off ON west ENTER EVERY 30 s DO POST 'http://127.0.0.1:9/';")
    printed_log(allowed, "RUN;")
    assert runner_of(allowed, "bad").step() and runner_of(allowed, "off").step()
    bad, off = shown(allowed)
    assert (bad["done"], bad["failed"], bad["last error"]) == (0, 12, "exit code 3: no luck")
    assert (off["done"], off["failed"]) == (0, 2) and "cannot be reached" in off["last error"]


def test_an_action_that_takes_long_misses_what_comes_meanwhile(
    allowed: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bytes] = []
    monkeypatch.setattr(alert_target, "run_command", lambda *given: (taken.append(given[2]), time.sleep(0.2)))
    run_text(allowed, "CREATE ALERT a ON west ENTER EVERY 100 ms DO RUN 'x';")
    printed_log(allowed, "RUN;")
    assert runner_of(allowed, "a").step()
    assert [lines(record)[0]["step"] for record in taken] == [1]
    [alert] = shown(allowed)
    assert alert["done"] == 1 and alert["held back"] > 100


def test_a_command_cannot_outstay_its_time(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(AlertFailedError, match="the command was ended after"):
        run_command("sleep 30 & sleep 30", str(tmp_path), b"{}", patience_s=0.2)
    with pytest.raises(AlertFailedError, match="the command cannot be run"):
        run_command("true", str(tmp_path / "away"), b"{}")
    run_command("true", str(tmp_path), b"x" * (1 << 20))  # it need not read its input
    assert time.monotonic() - began < 25


def test_updates_of_a_batch_in_several_parts_count_like_those_in_one(
    allowed: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_target.AlertTarget, "rows", 20)
    run_text(allowed, "CREATE ALERT a ON west DO RUN 'cat >> out.jsonl';")
    wanted = due([one for one in lines(printed_log(allowed, "RUN;")) if one["query"] == "west"], 1)
    assert runner_of(allowed, "a").step()
    assert lines((tmp_path / "out.jsonl").read_bytes()) == wanted
    assert len(wanted) == 60


def test_a_slow_action_misses_no_part_of_the_next_batch(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_target.AlertTarget, "rows", 5)
    run_text(session, "CREATE ALERT a ON west DO NOTIFY;")
    printed_log(session, "RUN 5 STEPS;")
    acted: list[int] = []

    def act(target: alert_target.AlertTarget, update: Updates) -> None:
        acted.append(update.table.column("step")[0].as_py())
        target._target = msgspec.structs.replace(target._target, every_us=0 if len(acted) == 1 else 10**6)

    monkeypatch.setattr(alert_target.AlertTarget, "_say", act)
    runner = runner_of(session, "a")
    assert runner.step()
    printed_log(session, "RUN 5 STEPS;")
    assert runner.step()
    assert acted == [1, 6, 7, 8, 9, 10]


def test_a_disk_that_is_full_for_a_while_loses_no_update(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_text(session, "CREATE ALERT a ON west DO NOTIFY;")
    (session.home.path / "sinks").mkdir(exist_ok=True)
    reader = NoticeReader(session.home)
    printed_log(session, "RUN;")
    monkeypatch.setattr(sink_runner, "WAIT_S", 0.0)
    write, fails = alert_target.write_alert_state, 7

    def full(*given: Any) -> None:
        nonlocal fails
        if fails:
            fails -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*given)

    monkeypatch.setattr(alert_target, "write_alert_state", full)
    runner = runner_of(session, "a")
    assert [runner.step() for _ in range(8)] == [False] * 7 + [True]
    assert len(reader.read()) == 60
    [alert] = shown(session)
    assert alert["done"] == 60


def test_posts_have_the_update_as_body(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_target.AlertTarget, "rows", 100)  # parts with several posts, and several parts
    bodies: list[bytes] = []
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            keys.append(self.headers["Idempotency-Key"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/hook"
        run_text(session, f"CREATE ALERT a ON near ENTER EVERY 2 s DO POST '{address}';")
        updates = lines(printed_log(session, "RUN;"))
        assert runner_of(session, "a").step()
        server.shutdown()
    wanted = due([one for one in updates if one["query"] == "near" and one["op"] == "+"], 2)
    assert [json.loads(body) for body in bodies] == wanted
    assert len(set(keys)) == len(keys) == 30, "a server may drop a post whose key it knows"


def test_shells_hear_of_notices_that_come_after_them(session: Session) -> None:
    run_text(
        session, "CREATE ALERT said ON west ENTER EVERY 20 s DO NOTIFY; CREATE ALERT rung ON west DO BELL;"
    )
    (session.home.path / "sinks").mkdir(exist_ok=True)
    reader = NoticeReader(session.home)
    printed_log(session, "RUN 25 STEPS;")
    assert runner_of(session, "said").step()
    first, second = reader.read()
    assert first.text.startswith("alert said: west + o") and "(step 1, 2020-01-01T00:00:00Z)" in first.text
    assert not first.bell and "step 21" in second.text
    late = NoticeReader(session.home)
    assert runner_of(session, "rung").step()
    assert len(reader.read()) == len(rung := late.read()) == 25
    assert all(notice.bell for notice in rung)
    assert reader.read() == []


MORE = """
REGISTER QUERY numbers WITH (changes => true) AS SELECT id, n FROM m INSIDE RECT(0, 0, 5, 10);
REGISTER QUERY total AS SELECT COUNT(*) AS c FROM m INSIDE RECT(0, 0, 5, 10);
REGISTER QUERY halves AS SELECT x > 5 AS east, COUNT(*) AS c FROM m GROUP BY x > 5, n < 0;
REGISTER QUERY close AS SELECT id, DISTANCE AS d FROM m INSIDE CIRCLE(5, 5, 3);
"""


def said_by(session: Session, alert: str, steps: int = 3) -> list[str]:
    """Return what an alert says in the first steps of a run."""
    run_text(session, MORE + alert)
    (session.home.path / "sinks").mkdir(exist_ok=True)
    reader = NoticeReader(session.home)
    printed_log(session, f"RUN {steps} STEPS;")
    assert runner_of(session, "a").step()
    return [notice.text for notice in reader.read()]


def test_a_row_that_changes_neither_enters_nor_leaves(allowed: Session, tmp_path: Path) -> None:
    run_text(allowed, MORE)
    acts = "DO RUN 'cat >> {0}';"
    for name in ("west ENTER", "west LEAVE", "numbers ENTER", "numbers LEAVE", "numbers "):
        alert = name.replace(" ", "_")
        run_text(allowed, f"CREATE ALERT {alert} ON {name} {acts.format(alert)}")
    updates = lines(printed_log(allowed, "RUN;"))

    def acted_on(alert: str) -> list[tuple[int, str]]:
        assert runner_of(allowed, alert).step()
        return [(one["step"], one["key"]) for one in lines((tmp_path / alert).read_bytes())]

    assert acted_on("numbers_ENTER") == acted_on("west_ENTER")
    assert acted_on("numbers_LEAVE") == acted_on("west_LEAVE")
    new_rows = [one for one in updates if one["query"] == "numbers" and one.get("why") != "changed"]
    assert acted_on("numbers_") == [(one["step"], one["key"]) for one in due(new_rows, 1)]


def test_an_entering_is_known_by_its_step_though_parts_are_short(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_target.AlertTarget, "rows", 1)
    said = said_by(session, "CREATE ALERT a ON total ENTER DO NOTIFY;", 30)
    assert said == [said[0]] and said[0].startswith("alert a: total +: c ")


def test_an_alert_says_the_whole_row_in_words(session: Session) -> None:
    said = said_by(session, "CREATE ALERT a ON numbers LEAVE DO NOTIFY;")
    assert re.fullmatch(r"alert a: numbers - o\d+ \(left\): n \d \(step 2, 2020-01-01T00:00:01Z\)", said[0])


def test_a_grouped_key_comes_as_its_values(session: Session) -> None:
    said = said_by(session, "CREATE ALERT a ON halves ENTER DO NOTIFY;")
    assert re.fullmatch(r"alert a: halves \+ false, false: east false, c \d+ \(step 1, .*\)", said[0])


def test_a_text_has_the_values_of_the_row(session: Session) -> None:
    text = "{{{alert}}} {query} {op} {id} is {d} m away, it''s step {step} at {at}"
    said = said_by(session, f"CREATE ALERT a ON close ENTER DO NOTIFY '{text}';", 1)
    shape = r"alert a: \{a\} close \+ o\d+ is [12]\.\d{1,6} m away, it's step 1 at 2020-01-01T00:00:00Z"
    assert len(said) == 1 and re.fullmatch(shape, said[0])


def test_a_command_may_get_a_text_on_its_standard_input(allowed: Session, tmp_path: Path) -> None:
    assert said_by(allowed, "CREATE ALERT a ON west ENTER DO RUN 'cat > out' WITH '{row}';", 1) == []
    assert re.fullmatch(r"west \+ o\d+: n 0", (tmp_path / "out").read_text())
    [alert] = shown(allowed)
    assert alert["do"] == "run cat > out: {row}"


def test_a_text_that_lost_its_column_counts_as_failed(session: Session) -> None:
    run_text(session, "CREATE ALERT a ON west DO NOTIFY '{n}';")
    run_text(session, "DROP QUERY west; REGISTER QUERY west AS SELECT id FROM m;")
    printed_log(session, "RUN 1 STEPS;")
    assert runner_of(session, "a").step()
    [alert] = shown(session)
    assert alert["failed"] == 1 and alert["last error"] == "west has no column 'n' for the text any more"


def test_a_post_with_a_text_is_json_where_it_begins_so(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[bytes, str]] = []
    monkeypatch.setattr(HttpTarget, "send", lambda self, body, kind, step: sent.append((body, kind)))
    address = "POST 'http://localhost:9/'"
    run_text(session, f"CREATE ALERT b ON west DO {address} WITH '{{row}}';")
    said_by(
        session, f"""CREATE ALERT a ON west DO {address} WITH '{{{{"text": "<{{id}}>", "n": {{n}}}}}}';""", 1
    )
    assert runner_of(session, "b").step()
    [(first, kind), (second, other)] = sent
    assert re.fullmatch(r'\{"text": "<o\d+>", "n": 0\}', first.decode()) and kind == "application/json"
    assert second.startswith(b"west + o") and other == "text/plain; charset=utf-8"


def test_notices_begin_anew_in_a_new_file_and_are_not_lost(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stqsh.storage.sinks import notices

    (session.home.path / "sinks").mkdir(exist_ok=True)
    monkeypatch.setattr(notices, "_MOST_BYTES", 500)
    reader = NoticeReader(session.home)
    found: list[str] = []
    for number in range(60):
        notices.post_notice(session.home, notices.Notice(f"notice {number}"))
        found += [notice.text for notice in reader.read()]
    assert found == [f"notice {number}" for number in range(60)]
    assert (session.home.path / "sinks" / "notices").stat().st_size < 600


def test_a_notice_that_a_full_disk_cut_short_spoils_no_other(session: Session) -> None:
    from stqsh.storage.sinks.notices import Notice, post_notice

    path = session.home.path / "sinks" / "notices"
    path.parent.mkdir(exist_ok=True)
    reader = NoticeReader(session.home)
    post_notice(session.home, Notice("one"))
    with path.open("ab") as file:
        file.write(b'{"text":"tw')
    assert reader.read() == [Notice("one")]
    for text in ("three", "four"):
        post_notice(session.home, Notice(text, bell=True))
    assert reader.read() == [Notice("three", bell=True), Notice("four", bell=True)]


def test_a_script_runs_commands_only_where_that_is_allowed(session: Session) -> None:
    with pytest.raises(BindError, match="only with --allow-run") as caught:
        run_text(session, "CREATE ALERT a ON west DO RUN 'rm everything';")
    assert caught.value.exit_code == 2
    run_text(session, "CREATE ALERT a ON west DO NOTIFY;")


def test_alerts_are_dumped_described_and_dropped(session: Session) -> None:
    text = "CREATE ALERT a ON west LEAVE EVERY 2 min DO BELL;"
    run_text(session, text)
    [dumped] = session.execute("DUMP;")
    assert isinstance(dumped, Script) and text in dumped.text.splitlines()
    [described] = session.execute("DESCRIBE a;")
    assert isinstance(described, Rows) and ("every", "2 min") in described.rows
    for wrong in (
        "CREATE ALERT a ON west DO NOTIFY;",
        "DROP SINK a;",
        "CREATE REGION a AS RECT(1, 1, 2, 2);",
    ):
        with pytest.raises(StqshError):
            run_text(session, wrong)
    [there] = session.execute("CREATE ALERT IF NOT EXISTS a ON west DO NOTIFY;")
    assert "alert a exists already" in str(there)
    [sinks] = session.execute("SHOW SINKS;")
    assert isinstance(sinks, Rows) and sinks.rows == ()
    [told] = session.execute("DROP QUERY west;")
    assert "alert a goes on with the next query of this name" in str(told)
    [dumped] = session.execute("DUMP;")
    assert isinstance(dumped, Script) and "ALERT" not in dumped.text
    run_text(session, "DROP ALERT a; DROP ALERT IF EXISTS a;")
    assert shown(session) == []
