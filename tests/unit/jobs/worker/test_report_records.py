"""Reports of children become the state of their jobs."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.jobs.claims import Claim
from services.jobs.events import MAX_TEXT, events_after, latest_metrics
from services.jobs.store import list_checkpoints, move_job
from services.jobs.worker import thinning
from services.jobs.worker.reports import MessageReport, parse_report, record_reports
from tests.support.servers import running_postgres
from tests.unit.jobs.machine import claim, cpu_worker, queued_job, read


def record(database: Database, *lines: str) -> str:
    queued_job(database)
    held = claim(database, cpu_worker())
    with database.write() as session:
        record_reports(session, held, [parse_report(line.encode()) for line in lines], 100)
    return held.job.id


@given(st.binary(max_size=300))
def test_invalid_report_lines_become_warnings(line: bytes) -> None:
    report = parse_report(line)

    assert isinstance(report, MessageReport)
    assert report.level == "warn"


def test_phase_and_progress_update_the_job(database: Database) -> None:
    job_id = record(
        database,
        '{"type": "phase", "phase": "training"}',
        '{"type": "progress", "step": 3, "total_steps": 10, "eta_seconds": 7.5}',
    )

    job = read(database, job_id)
    assert (job.phase, job.step, job.total_steps, job.eta_seconds) == ("training", 3, 10, 7.5)
    assert job.reports_offset == 100


def test_a_download_is_the_jobs_state_until_its_next_phase(database: Database) -> None:
    state = {"bytes": 5, "total_bytes": 20, "bytes_per_second": 2.5, "eta_seconds": 6.0}
    queued_job(database)
    held = claim(database, cpu_worker())

    def report(**values: object) -> None:
        with database.write() as session:
            record_reports(session, held, [parse_report(json.dumps(values).encode())], 100)

    report(type="phase", phase="downloading_model")
    report(type="download", **state)
    assert read(database, held.job.id).download == state
    with database.read() as session:
        messages = [event.message for event in events_after(session, held.job.id, 0, 100)]
    assert messages[-1] == "Phase: downloading_model"  # bytes are no events

    report(type="phase", phase="loading_model")
    assert read(database, held.job.id).download is None


def test_metrics_become_an_event_with_their_values(database: Database) -> None:
    job_id = record(
        database, '{"type": "metrics", "step": 3, "metrics": {"loss": 0.5, "grad_norm": null}}'
    )

    with database.read() as session:
        event = events_after(session, job_id, 0, 100)[-1]
    assert (event.type, event.data) == ("metrics", {"step": 3, "loss": 0.5, "grad_norm": None})
    assert event.message == "Step 3: loss=0.5"


def test_a_checkpoint_is_listed_once_with_the_latest_metrics(database: Database) -> None:
    job_id = record(
        database,
        '{"type": "metrics", "step": 3, "metrics": {"loss": 0.5}}',
        '{"type": "checkpoint", "step": 3, "path": "output/checkpoint-3"}',
        '{"type": "checkpoint", "step": 3, "path": "output/checkpoint-3"}',
    )

    with database.read() as session:
        checkpoints, more = list_checkpoints(session, job_id, None, 10)
    assert [(row.step, row.metrics) for row in checkpoints] == [(3, {"step": 3, "loss": 0.5})]
    assert more is False


def test_checkpoints_that_a_process_has_deleted_are_listed_no_more(database: Database) -> None:
    def report(step: int, *kept: int) -> str:
        place = {"type": "checkpoint", "step": step, "path": f"checkpoint-{step}"}
        return json.dumps(place | ({"kept": kept} if kept else {}))

    first, second = report(2, 2), report(4, 2, 4)
    job_id = record(database, report(1), first, second, second, report(6, 4, 6))

    with database.read() as session:
        checkpoints, _ = list_checkpoints(session, job_id, None, 10)
        told = [event.message for event in events_after(session, job_id, 0, 100)]
    assert [row.step for row in checkpoints] == [6, 4]
    assert told[-4:] == [f"Checkpoint at step {step}" for step in (1, 2, 4, 6)]


HOSTILE = [
    '{"type": "message", "message": "a\\u0000b", "data": {"k\\u0000": "v\\u0000", "n": NaN}}',
    '{"type": "message", "message": "\\ud800"}',
    '{"type": "phase", "phase": "p\\u0000"}',
    '{"type": "phase", "phase": "' + "p" * 65 + '"}',
    '{"type": "progress", "step": 9223372036854775808, "total_steps": 1}',
    '{"type": "progress", "step": 1, "total_steps": 2, "eta_seconds": Infinity}',
    '{"type": "metrics", "step": 1, "metrics": {"loss": NaN, "grad\\u0000": 1e400}}',
    '{"type": "metrics", "step": 1, "metrics": {"loss": 1' + "0" * 5000 + "}}",
    '{"type": "message", "message": "big", "data": {"n": 1' + "0" * 5000 + "}}",
    '{"type": "message", "message": "' + "m" * 1_000_000 + '"}',
    '{"type": "message", "message": "deep", "data": ' + '{"a":' * 5000 + "1" + "}" * 5001,
    '{"type": "checkpoint", "step": 1, "path": "a\\u0000b"}',
    '{"type": "checkpoint", "step": -1, "path": "x"}',
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.variant)])
def test_unstorable_reports_are_sanitized(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sqlite = f"sqlite:///{tmp_path / 'temper.db'}"
    database = Database(sqlite if backend == "sqlite" else request.getfixturevalue("postgres"))
    migrate(database)

    job_id = record(database, *HOSTILE)

    with database.read() as session:
        events = events_after(session, job_id, 0, 100)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    for event in events:
        assert "\0" not in event.message
        assert len(event.message) <= MAX_TEXT
        json.dumps(event.data, ensure_ascii=False, allow_nan=False).encode()
    job = read(database, job_id)
    assert (job.phase, job.step, job.eta_seconds) == ("p\ufffd", 1, None)
    database.close()


def step(number: int, kind: str = "loss") -> bytes:
    report = {"type": "metrics", "step": number, "metrics": {kind: float(number)}}
    return json.dumps(report).encode()


def report(database: Database, held: Claim, lines: Sequence[bytes]) -> None:
    with database.write() as session:
        record_reports(session, held, [parse_report(line) for line in lines], 100)


def test_messages_over_the_limit_leave_no_gap_in_event_numbers(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "MAX_EVENTS", 8)
    monkeypatch.setattr(thinning, "MAX_OTHERS", 2)
    queued_job(database)
    held = claim(database, cpu_worker())

    for _ in range(3):
        report(database, held, [b'{"type": "message", "message": "again"}'] * 5)
    with database.write() as session:
        move_job(session, read(database, held.job.id), JobStatus.SUCCEEDED, "done")

    with database.read() as session:
        events = events_after(session, held.job.id, 0, 100)
    assert [event.number for event in events] == list(range(1, 12))
    assert events[-2].message.startswith("The job has very many events")
    assert events[-1].message == "done"


def test_the_latest_state_of_a_long_job_is_exact_and_its_events_are_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "MAX_EVENTS", 200)
    monkeypatch.setattr(thinning, "MAX_OTHERS", 10)
    monkeypatch.setattr(thinning, "LATEST_KEPT", 20)
    queued_job(database)
    held = claim(database, cpu_worker())
    job_id = held.job.id

    for start in range(0, 1600, 16):
        steps = range(start, start + 16)
        report(database, held, [step(n, ("loss", "reward")[n % 2]) for n in steps])
        if start % 160 == 0:
            place = {"type": "checkpoint", "step": start + 15, "path": "p"}
            report(database, held, [json.dumps(place).encode()])
            with database.read() as session:
                (saved, *_), _ = list_checkpoints(session, job_id, None, 1)
                (latest,) = latest_metrics(session)
            told = {"step": start + 15, "loss": start + 14.0, "reward": start + 15.0}
            assert saved.metrics == told
            assert latest.values == {"step": start + 15, "reward": start + 15.0}

    with database.read() as session:
        kept = [each.data or {} for each in events_after(session, job_id, 0, 10_000)]
    assert len(kept) < 300
    steps_of_metrics = [data["step"] for data in kept if "path" not in data and "step" in data]
    assert steps_of_metrics[-20:] == list(range(1580, 1600))
    older = steps_of_metrics[:-20]
    assert older == sorted(older)
    # Both kinds of metrics, of all quarters.
    assert {(n % 2, n // 400) for n in older} == {(k, q) for k in (0, 1) for q in range(4)}


def test_the_latest_metrics_stay_when_only_messages_follow(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "MAX_EVENTS", 100)
    monkeypatch.setattr(thinning, "LATEST_KEPT", 10)
    queued_job(database)
    held = claim(database, cpu_worker())

    report(database, held, [step(n, "loss") for n in range(40)])
    for _ in range(20):  # sweeps pass over all metrics
        report(database, held, [b'{"type": "message", "message": "again"}'] * 20)

    with database.read() as session:
        kept = [each.data or {} for each in events_after(session, held.job.id, 0, 10_000)]
    steps = [data["step"] for data in kept if "step" in data]
    assert steps[-10:] == list(range(30, 40))
    assert len(steps) < 40


@pytest.mark.drill
def test_many_reports_are_recorded_in_order(database: Database) -> None:
    queued_job(database)
    held = claim(database, cpu_worker())
    lines = [b'{"type": "metrics", "step": %d, "metrics": {"loss": 1}}' % n for n in range(20_000)]

    for start in range(0, len(lines), 10_000):
        with database.write() as session:
            reports = [parse_report(line) for line in lines[start : start + 10_000]]
            record_reports(session, held, reports, start)

    with database.read() as session:
        events = events_after(session, held.job.id, 3, 30_000)
    assert [event.data["step"] for event in events if event.data] == list(range(20_000))
