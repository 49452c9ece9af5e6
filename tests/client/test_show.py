import numpy as np
import pytest
from msgspec.structs import replace

from stqsh.client.show.activity import play_text
from stqsh.client.show.subjects import SUBJECTS, engine_state
from stqsh.client.statements.describe import describe_query, describe_stream, dump
from stqsh.errors import StqshError
from stqsh.profile import load_profile
from stqsh.spec.log import RunToEnd, StreamPaused, StreamPlayed
from stqsh.spec.stats import BatchStats, Playback, SlotStats, TimeSplit
from stqsh.storage import catalogue_writer
from stqsh.storage.control_log import append
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.progress import BatchEffects, set_stream_status
from stqsh.storage.rows import StreamStatus
from stqsh.storage.session_settings import check_setting
from stqsh.units import format_age, format_duration, format_instant

PROFILE = load_profile(None, {})


def items(rows):
    return dict(rows.rows)


def test_every_subject_answers_on_an_empty_session(connection):
    for subject in SUBJECTS.values():
        for rows in subject(connection, PROFILE):
            assert all(len(row) == len(rows.columns) for row in rows.rows)


@pytest.mark.parametrize(
    ("left", "shown"),
    [("stopping", "stopped"), ("failed", "failed"), ("ready", "dead"), ("starting", "dead")],
)
def test_an_engine_that_was_stopped_is_not_called_dead(left, shown):
    nobody = 2**22 + 1  # beyond the numbers that Linux gives to processes
    assert engine_state(EngineInfo.now(nobody, left)) == shown
    assert engine_state(None) == "not started"


def test_status_tells_clock_load_and_what_goes_on(connection, deliver, query):
    (before,) = SUBJECTS["STATUS"](connection, PROFILE)
    assert items(before)["engine"] == "not started" and items(before)["streams"] == "standing still"
    assert items(before)["shedding"] == "off" and "lag" not in items(before)
    run = append(connection.db, RunToEnd(), "RUN;")
    set_stream_status(connection.db, StreamStatus(query.stream_id, "ready", 10, 2))
    time = TimeSplit(source_us=1500, kernel_us=20_000, total_us=21_500)
    stats = BatchStats(records_total=12, records_per_s=7, time=time)
    deliver(stats=stats)
    (running,) = SUBJECTS["STATUS"](connection, PROFILE)
    found = items(running)
    assert found["streams"] == "running" and found["step"] == 1 and found["dead letters"] == 2
    assert found["clock"] == "1970-01-01T00:16:40Z" and found["records"] == 12
    assert found["last batch: time"] == (
        "source 2 ms, transfer 0 ms, kernel 20 ms, state 0 ms, deliver 0 ms, total 22 ms"
    )
    deliver(run_done=run.seq, over=True)
    (after,) = SUBJECTS["STATUS"](connection, PROFILE)
    assert items(after)["streams"] == "at their end"


def test_streams_and_queries_are_listed(connection, deliver, query):
    set_stream_status(connection.db, StreamStatus(query.stream_id, "reading", 5, 1, "reading 2 files", 0.25))
    deliver(effects=BatchEffects(grown=(np.array([query.id]), np.array([3]))))
    (streams,) = SUBJECTS["STREAMS"](connection, PROFILE)
    assert streams.rows == (
        ("taxis", "moving", "reading 25%", "standing still", 5, 1, 1, "/data/*.csv", "reading 2 files"),
    )
    (queries,) = SUBJECTS["QUERIES"](connection, PROFILE)
    name, kind, stream, state, _, size, rate, share, text, accuracy = queries.rows[0]
    assert (rate, share, accuracy) == (0.0, None, 1.0)
    assert (name, kind, stream, state, size) == ("q", "range", "taxis", "active", 3) and "INSIDE" in text


def test_streams_say_whether_they_play_at_which_pace_and_what_they_wait_for(connection, deliver, query):
    def said():
        (status,), (streams,) = (
            SUBJECTS["STATUS"](connection, PROFILE),
            SUBJECTS["STREAMS"](connection, PROFILE),
        )
        clock = streams.columns.index("clock")
        return items(status)["streams"], [row[clock] for row in streams.rows]

    taxis = query.stream_id
    append(connection.db, StreamPlayed(taxis, "taxis", 600))
    assert said() == ("playing at 600x", ["playing at 600x"])
    second = 1_000_000
    deliver(stats=BatchStats(playing=True, playback=Playback(600.0, 3_600 * second)))
    assert said()[0] == "playing at 600x; next record in 6 s"
    deliver(stats=BatchStats(playing=True, playback=Playback(600.0, 60 * second)))
    assert said()[0] == "playing at 600x", "a tenth of a second is not worth saying"
    deliver(stats=BatchStats(playing=True, playback=Playback(600.0, 0, 9 * 86_400 * second, 1)))
    assert said()[0] == "playing at 600x; skipped 9 days without records"
    append(connection.db, StreamPlayed(taxis, "taxis", "max"))
    assert said()[1] == ["playing at full speed"]
    append(connection.db, StreamPaused(taxis, "taxis"))
    assert said() == ("standing still", ["paused"])
    append(connection.db, RunToEnd(), "RUN;")
    assert said() == ("running", ["running"])


def test_a_play_says_its_pace_and_that_it_skips_what_is_empty(connection, deliver, stream):
    append(connection.db, StreamPlayed(stream.id, "taxis", None))
    assert play_text(connection, stream) == "stream taxis plays at 1x"
    deliver(stats=BatchStats(playback=Playback(1.0, 9 * 86_400_000_000)))
    assert play_text(connection, stream) == "stream taxis plays at 1x; next record in 9 days; skipping"
    append(connection.db, StreamPlayed(stream.id, "taxis", 100_000))
    assert play_text(connection, stream) == "stream taxis plays at 100000x"


def test_slots_show_their_load(connection, deliver):
    deliver(stats=BatchStats(slots=(SlotStats(0, records=5, unsent=4, kernel_us=1234),)))
    (slots,) = SUBJECTS["SLOTS"](connection, PROFILE)
    assert slots.rows == ((0, 5, 4, 0, 0, None, 0, 0, 0.0, 1.2, 0.0),)


def test_dead_letters_come_with_file_line_and_reason(connection, stream):
    folder = connection.home.stream(stream.id)
    folder.mkdir()
    line = '{"file": "a.csv", "line": 3, "reason": "lat is 91", "text": "x,91"}\n'
    (folder / "dead_letters.jsonl").write_text(line + '{"file": "half')
    set_stream_status(connection.db, StreamStatus(stream.id, "ready", 5, 2))
    counts, letters = SUBJECTS["DEAD LETTERS"](connection, PROFILE)
    assert counts.rows == (("taxis", 2),)
    assert letters.rows == (("taxis", "a.csv", 3, "lat is 91", "x,91"),)


def test_settings_tell_where_they_come_from(connection):
    catalogue_writer.set_value(connection.db, "SET engine.slots = 7;", "engine.slots", 7)
    profile = load_profile(None, {"STQSH_ENGINE_MEMORY": "3g"})
    (settings,) = SUBJECTS["SETTINGS"](connection, profile)
    found = {key: (value, origin) for key, value, origin, _ in settings.rows}
    assert all(meaning for *_, meaning in settings.rows)
    assert found["engine.slots"] == (7, "SET")
    assert found["engine.memory"] == ("3g", "STQSH_ENGINE_MEMORY")
    assert found["session.home_root"] == (None, "default")


def test_a_setting_is_checked():
    assert check_setting("engine.slots", "4") == 4
    with pytest.raises(StqshError, match="expected a whole number"):
        check_setting("engine.slots", "many")
    with pytest.raises(StqshError, match=r"unknown setting 'engine.slot'") as caught:
        check_setting("engine.slot", "4")
    assert "engine.slots" in caught.value.hint


def test_a_stream_and_a_query_describe_themselves(connection, stream, query):
    columns, clauses = describe_stream(connection, stream)
    assert columns.rows[0] == ("oid", "STRING", "key") and columns.rows[1] == ("lon", "DOUBLE", "x")
    assert items(clauses)["report every"] == "30 s" and items(clauses)["max speed"] == "16.5 m/s"
    (about,) = describe_query(query)
    assert items(about)["text"].startswith("SELECT") and items(about)["for"] is None


def test_a_dump_has_what_lives_in_order(connection, query):
    other, gone, _ = (
        catalogue_writer.register(
            connection.db,
            catalogue_writer.Registered(
                f"REGISTER QUERY {name} AS …;", replace(query.spec, name=name), owner
            ),
        )
        for name, owner in (("r", None), ("x", None), ("sub_1", "1:1"))
    )
    catalogue_writer.change_query(connection.db, "drop", "DROP QUERY x;", gone)
    catalogue_writer.change_query(connection.db, "pause_query", "PAUSE QUERY r;", other)
    for value in (1, 2):
        catalogue_writer.set_value(connection.db, f"SET engine.slots = {value};", "engine.slots", value)
    assert dump(connection).text.splitlines() == [
        "SET engine.slots = 2;",
        "CREATE MOVING STREAM taxis …;",
        "REGISTER QUERY q AS …;",
        "REGISTER QUERY r AS …;",
        'PAUSE QUERY "r";',
    ]


@pytest.mark.parametrize(
    "us, text",
    [(0, "0 ms"), (1500, "1.5 ms"), (30_000_000, "30 s"), (90_000_000, "90 s"), (7_200_000_000, "2 hours")],
)
def test_durations_read_as_they_are_written(us, text):
    assert format_duration(us) == text


def test_instants_and_ages():
    assert (
        format_instant(1_500_000) == "1970-01-01T00:00:01.5Z" and format_instant(0) == "1970-01-01T00:00:00Z"
    )
    assert (
        format_instant(-1_000_000) == "1969-12-31T23:59:59Z"
        and format_instant(None) is None
        and format_duration(None) is None
    )
    assert format_age(61_000_000) == "1 min" and format_age(0) == "0 ms"
