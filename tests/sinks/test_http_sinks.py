"""Sinks TO HTTP against a server on loopback that fails, stalls, refuses and forgets to answer."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.sinks import printed_log, run_text, runner_of

from stqsh.client.api import Session
from stqsh.lang.errors import BindError
from stqsh.sinks import http_target, sink_runner
from stqsh.sinks.alert_target import AlertTarget
from stqsh.sinks.http_target import HttpTarget
from stqsh.sinks.target import TargetRefusedError
from stqsh.spec.sink import AlertTargetSpec
from stqsh.storage.sinks.sink_catalogue import find_alert


@dataclass
class Server:
    """What the server has taken, and how it answers next: a status, "stall", or "drop" (take, no answer)."""

    address: str = ""
    taken: dict[str, bytes] = field(default_factory=dict)
    seen: list[tuple[str, bytes]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    plan: list[int | str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            key = self.headers["Idempotency-Key"]
            state.seen.append((key, body))
            state.headers = dict(self.headers)
            state.paths.add(self.path)
            answer = state.plan.pop(0) if state.plan else 200
            if answer in (200, "drop"):
                state.taken.setdefault(key, body)
            if answer == "stall":
                time.sleep(1.0)
            if answer in ("stall", "drop"):
                self.close_connection = True
                return
            self.send_response(int(answer))
            if answer == 429:
                self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"no")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.address = f"http://127.0.0.1:{http.server_port}/hook?a=b"
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield state
        http.shutdown()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_runner, "WAIT_S", 0.001)
    monkeypatch.setattr(sink_runner, "LONGEST_WAIT_S", 0.01)


def until_written(session: Session, target: HttpTarget) -> None:
    runner = runner_of(session, "hook", target)
    for _ in range(500):
        if runner.step():
            return
    raise AssertionError("the sink never comes through")


def test_a_server_that_answers_badly_takes_each_part_once(session: Session, server: Server) -> None:
    run_text(session, f"CREATE SINK hook FOR ALL TO HTTP '{server.address}';")
    expected = printed_log(session, "RUN;")
    draw = random.Random(3)
    server.plan = draw.choices([200, 500, 503, 429, 408, "drop", "stall"], [6, 2, 1, 1, 1, 2, 0.5], k=120)
    until_written(session, HttpTarget(server.address, "s-1", "Bearer secret", timeout_s=0.3))
    assert b"".join(server.taken.values()) == expected
    assert len(server.seen) > len(server.taken) > 5
    for key, body in server.seen:
        assert server.taken[key] == body
    assert server.headers["Authorization"] == "Bearer secret"
    assert server.headers["Content-Type"] == "application/x-ndjson"


def test_what_is_refused_is_told_and_not_repeated(session: Session, server: Server) -> None:
    run_text(session, f"CREATE SINK hook FOR ALL TO HTTP '{server.address}'; RUN 10 STEPS;")
    server.plan = [200, 400]
    runner = runner_of(session, "hook")
    with pytest.raises(TargetRefusedError):
        runner.step()
    server.plan = [400]
    runner.run()
    count = len(server.seen)
    [rows] = list(session.execute("SHOW SINKS;"))
    shown = dict(zip(rows.columns, rows.rows[0], strict=True))  # type: ignore[union-attr]
    assert shown["state"] == "stopped"
    assert "answers 400" in shown["last error"]
    assert shown["steps behind"] > 0 and shown["behind"] and shown["age"]
    time.sleep(0.1)
    assert len(server.seen) == count


def test_nobody_listens(session: Session, server: Server) -> None:
    run_text(session, "CREATE SINK hook FOR ALL TO HTTP 'http://127.0.0.1:9/'; RUN 5 STEPS;")
    runner = runner_of(session, "hook")
    assert not runner.step()
    [rows] = list(session.execute("DESCRIBE hook;"))
    shown = dict(rows.rows)  # type: ignore[union-attr]
    assert shown["state"] == "waiting"
    assert shown["last error"] == "127.0.0.1:9 cannot be reached: connection refused"


def test_a_certificate_that_is_not_trusted_may_be_another_one_later(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ssl.SSLCertVerificationError(1, "certificate has expired")

    monkeypatch.setattr(http.client.HTTPSConnection, "connect", refuse)
    run_text(session, "CREATE SINK hook FOR ALL TO HTTP 'https://localhost:1/'; RUN 5 STEPS;")
    assert not runner_of(session, "hook", HttpTarget("https://localhost:1/", "s-1", "")).step()
    [rows] = list(session.execute("DESCRIBE hook;"))
    shown = dict(rows.rows)  # type: ignore[union-attr]
    assert shown["state"] == "waiting"
    assert "certificate has expired" in str(shown["last error"])


@pytest.mark.parametrize("secret", ["Bearer hidden\n", "Bearer hidden\r\nX: 1", "Bearer hidden€", "hidden\0"])
def test_a_header_that_cannot_be_sent_stops_the_sink_and_is_not_told(
    session: Session, server: Server, caplog: pytest.LogCaptureFixture, secret: str
) -> None:
    run_text(
        session,
        f"CREATE SINK hook FOR west TO HTTP '{server.address}';"
        f"CREATE ALERT alert ON west DO POST '{server.address}';",
    )
    runner = runner_of(session, "hook", HttpTarget(server.address, "s-1", secret))
    with pytest.raises(TargetRefusedError):  # before there is an update
        runner.step()
    runner.run()
    run_text(session, "RUN 5 STEPS;")
    alert = find_alert(session.connection.db, "alert")
    assert alert is not None and isinstance(alert.spec.target, AlertTargetSpec)
    acting = AlertTarget(session.connection, alert, alert.spec.target, "s-2", secret)
    assert runner_of(session, "alert", acting).step()
    said = ""
    for statement, column, value in (("SHOW SINKS;", "state", "stopped"), ("SHOW ALERTS;", "failed", 5)):
        [rows] = list(session.execute(statement))
        shown = dict(zip(rows.columns, rows.rows[0], strict=True))  # type: ignore[union-attr]
        said += str(shown)
        assert shown["last error"].startswith("sinks.http.authorization cannot be sent")
        assert shown[column] == value
    assert "hidden" not in said + caplog.text
    assert server.seen == []


def test_a_path_is_percent_encoded(session: Session, server: Server) -> None:
    address = server.address.replace("/hook?a=b", "/straße/%41?a=ö&b=[1]")
    run_text(
        session,
        f"CREATE SINK hook FOR west TO HTTP '{address}'; CREATE ALERT a ON west DO POST '{address}';"
        "RUN 5 STEPS;",
    )
    assert runner_of(session, "hook").step() and runner_of(session, "a").step()
    assert server.paths == {"/stra%C3%9Fe/%41?a=%C3%B6&b=[1]"}
    [rows] = list(session.execute("SHOW ALERTS;"))
    assert dict(zip(rows.columns, rows.rows[0], strict=True))["done"] == 5  # type: ignore[union-attr]


def test_an_address_without_a_possible_host_is_refused(session: Session, server: Server) -> None:
    with pytest.raises(BindError, match="takes a complete address"):
        run_text(session, "CREATE SINK hook FOR west TO HTTP 'http://a..b/';")
    run_text(session, f"CREATE SINK hook FOR west TO HTTP '{server.address}'; RUN 5 STEPS;")
    with pytest.raises(TargetRefusedError, match=r"a\.\.b cannot be the name of a host"):
        runner_of(session, "hook", HttpTarget("http://a..b/", "s-1", "")).step()


@pytest.mark.parametrize("wait", ["²", "9" * 400, "Mon, 99 Jan 2024 00:00:00 GMT", "soon"])
def test_a_server_may_ask_for_any_wait(wait: str) -> None:
    assert http_target._wait_s(wait) >= 0.0


def test_secrets_are_not_shown(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STQSH_SINKS_HTTP_AUTHORIZATION", "Bearer hidden")
    from stqsh.client.show.subjects import show_settings
    from stqsh.profile import load_profile

    [rows] = show_settings(session.connection, load_profile())
    assert "hidden" not in json.dumps(rows.rows)
    shown = [row[:3] for row in rows.rows]
    assert ("sinks.http.authorization", "(set)", "STQSH_SINKS_HTTP_AUTHORIZATION") in shown
