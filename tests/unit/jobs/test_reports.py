"""What children report."""

from hypothesis import given
from hypothesis import strategies as st

from services.common.db.engine import Database
from services.common.jobs.events import events_after
from services.common.jobs.reports import MessageReport, parse_report, record_reports
from services.common.jobs.store import list_checkpoints
from tests.unit.jobs.machine import claim, cpu_worker, queued_job, read


def record(database: Database, *lines: str) -> str:
    queued_job(database)
    held = claim(database, cpu_worker())
    with database.write() as session:
        record_reports(session, held, [parse_report(line.encode()) for line in lines], 100)
    return held.job.id


@given(st.binary(max_size=300))
def test_any_line_is_a_report_or_becomes_a_warning_that_shows_it(line: bytes) -> None:
    report = parse_report(line)

    assert isinstance(report, MessageReport)
    assert report.level == "warn"


def test_phase_and_progress_become_the_state_of_the_job(database: Database) -> None:
    job_id = record(
        database,
        '{"type": "phase", "phase": "training"}',
        '{"type": "progress", "step": 3, "total_steps": 10, "eta_seconds": 7.5}',
    )

    job = read(database, job_id)
    assert (job.phase, job.step, job.total_steps, job.eta_seconds) == ("training", 3, 10, 7.5)
    assert job.reports_offset == 100


def test_metrics_become_an_event_with_the_figures(database: Database) -> None:
    job_id = record(
        database, '{"type": "metrics", "step": 3, "metrics": {"loss": 0.5, "grad_norm": null}}'
    )

    with database.read() as session:
        event = events_after(session, job_id, 0, 100)[-1]
    assert (event.type, event.data) == ("metrics", {"step": 3, "loss": 0.5, "grad_norm": None})
    assert event.message == "Step 3: loss=0.5"


def test_a_checkpoint_is_listed_once_with_the_figures_before_it(database: Database) -> None:
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
