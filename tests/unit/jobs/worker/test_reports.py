"""Following a child's report file and log."""

import json
from pathlib import Path

import pytest

from services.core.db.engine import Database
from services.core.process.reporter import Reporter
from services.jobs.events import events_after
from services.jobs.worker.reports import (
    LOG_TAIL_LINES,
    MAX_LOG_BYTES,
    ReportFollower,
    bound_log,
    log_tail,
)
from tests.unit.jobs.machine import claim, cpu_worker, queued_job


@pytest.fixture
def follower(database: Database, tmp_path: Path) -> ReportFollower:
    queued_job(database)
    return ReportFollower(database, claim(database, cpu_worker()), tmp_path)


def messages(database: Database, follower: ReportFollower) -> list[str]:
    with database.read() as session:
        events = events_after(session, follower._claim.job.id, 0, 1000)
    return [event.message for event in events if event.message.startswith("report")]


def follow_to_end(follower: ReportFollower) -> None:
    while follower.follow():
        pass


def test_reports_are_recorded_once_as_they_appear(
    database: Database, follower: ReportFollower, tmp_path: Path
) -> None:
    reporter = Reporter(tmp_path)
    assert follower.follow() is False  # nothing is there yet

    reporter.message("report 1")
    follow_to_end(follower)
    reporter.message("report 2")
    follow_to_end(follower)

    assert messages(database, follower) == ["report 1", "report 2"]


def test_incomplete_lines_are_not_read(
    database: Database, follower: ReportFollower, tmp_path: Path
) -> None:
    line = b'{"type": "message", "message": "report 1"}\n'
    with open(tmp_path / "reports.jsonl", "ab", buffering=0) as file:
        file.write(line[:20])
        assert follower.follow() is False
        file.write(line[20:])
        follow_to_end(follower)

    assert messages(database, follower) == ["report 1"]


def test_a_shorter_file_is_read_from_its_start(
    database: Database, follower: ReportFollower, tmp_path: Path
) -> None:
    for number in range(3):
        Reporter(tmp_path).message(f"report {number}")
    follow_to_end(follower)

    (tmp_path / "reports.jsonl").unlink()
    Reporter(tmp_path).message("report of another file")
    follow_to_end(follower)

    assert messages(database, follower)[-1] == "report of another file"


def test_a_partial_line_of_a_killed_attempt_is_terminated(
    database: Database, follower: ReportFollower, tmp_path: Path
) -> None:
    (tmp_path / "reports.jsonl").write_bytes(b'{"type": "mess')

    Reporter(tmp_path).message("report 1")
    follow_to_end(follower)

    assert messages(database, follower) == ["report 1"]


def test_values_that_json_does_not_have_do_not_crash_a_child(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path)

    reporter.message("\ud800", where=float("inf"))
    reporter.finish(loss=float("nan"), text="\ud800")

    assert json.loads((tmp_path / "result.json").read_text()) == {
        "status": "succeeded",
        "loss": None,
        "text": "?",
    }


def test_the_log_tail_is_bounded_and_tolerates_invalid_bytes(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"\xff\n" + b"x" * 100_000 + b"\n" + b"line\n" * 100)

    tail = log_tail(log)

    assert len(tail) == LOG_TAIL_LINES
    assert tail[-1] == "line"
    assert log_tail(tmp_path / "missing") == []


def test_an_oversized_log_is_truncated_while_the_child_appends(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with open(log, "ab") as child:
        child.truncate(MAX_LOG_BYTES)
        child.write(b"\nlast words\n")
        child.flush()

        bound_log(log)
        child.write(b"later words\n")

    assert log.stat().st_size < MAX_LOG_BYTES // 10
    assert log.read_text().splitlines()[-2:] == ["last words", "later words"]


def test_metrics_of_which_only_the_clocks_change_are_not_repeated(
    database: Database, follower: ReportFollower, tmp_path: Path
) -> None:
    reporter = Reporter(tmp_path)
    for seconds in range(4):
        reporter.metrics(0, answered=0.0, tokens_per_second=9 / (seconds + 1), x_seconds=seconds)
        follow_to_end(follower)
    reporter.message("report 1")
    reporter.metrics(0, answered=1.0, tokens_per_second=3.0, x_seconds=4)
    reporter.metrics(1, answered=1.0, tokens_per_second=3.0, x_seconds=4)
    follow_to_end(follower)

    with database.read() as session:
        events = events_after(session, follower._claim.job.id, 0, 1000)
    told = [event.data for event in events if event.type == "metrics" and event.data]
    assert [(one["step"], one["answered"]) for one in told] == [(0, 0.0), (0, 1.0), (1, 1.0)]
    assert messages(database, follower) == ["report 1"]
