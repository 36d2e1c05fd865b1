"""The durations of a job's wait and phases on its page."""

from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Locator, Page, expect
from sqlalchemy import delete, update

from services.core.db.engine import Database
from services.core.db.tables import AttemptRow, EventRow, JobRow
from tests.support.gateway import GatewayClient

BEGAN = 1_700_000_000
STEP = None
"""An event without a phase."""


def ended_job(
    gateway: GatewayClient,
    attempts: Sequence[tuple[int, int]],
    events: Sequence[tuple[int, str | None]],
) -> str:
    """A job whose attempts and phases started and ended these seconds after its creation."""
    job_id = gateway.submit("succeed")
    gateway.wait_until(job_id, "succeeded")
    first, last = attempts[0][0], attempts[-1][1]
    times = {"created_at": BEGAN, "started_at": BEGAN + first, "finished_at": BEGAN + last}
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    with database.write() as session:
        for table in (EventRow, AttemptRow):
            session.execute(delete(table).where(table.job_id == job_id))
        changed = times | {"event_count": len(events)}
        session.execute(update(JobRow).where(JobRow.id == job_id).values(**changed))
        session.add_all(event(job_id, number, *each) for number, each in enumerate(events, start=1))
        session.add_all(
            attempt(job_id, number, *each) for number, each in enumerate(attempts, start=1)
        )
    database.close()
    return job_id


def event(job_id: str, number: int, at: int, phase: str | None) -> EventRow:
    about: dict[str, Any] = {"type": "metrics", "message": "Step", "data": {"step": number}}
    if phase is not None:
        about = {"type": "message", "message": f"Phase: {phase}", "data": {"phase": phase}}
    return EventRow(job_id=job_id, number=number, created_at=BEGAN + at, level="info", **about)


def attempt(job_id: str, number: int, started_at: int, ended_at: int) -> AttemptRow:
    return AttemptRow(
        job_id=job_id,
        epoch=number,
        attempt=number,
        worker="worker",
        host="host",
        devices=[],
        started_at=BEGAN + started_at,
        ended_at=BEGAN + ended_at,
    )


def open_job(page: Page, gateway: GatewayClient, job_id: str) -> Locator:
    """The phases on the page of a job."""
    page.goto(str(gateway.http.base_url.join(f"/ui/jobs/{job_id}")))
    return page.get_by_role("list", name="Phases in order of first occurrence")


def test_phases_are_summed_over_attempts(page: Page, gateway: GatewayClient) -> None:
    first = [(12, "loading_model"), (20, "training"), (80, "evaluating"), (90, "training")]
    job_id = ended_job(gateway, [(10, 100), (110, 141)], [*first, (111, "training")])
    phases = open_job(page, gateway, job_id)

    expect(phases.get_by_role("listitem")).to_have_text(
        [
            "validation and queue 10s,",
            "starting 3s over 2 periods,",
            "loading model 8s,",
            "training 1m 40s over 3 periods,",
            "evaluating 10s,",
            "between attempts 10s",
        ]
    )
    expect(page.get_by_text("Only the first and latest events")).to_have_count(0)


def test_a_long_job_shows_its_first_and_latest_phases_and_says_so(
    page: Page, gateway: GatewayClient
) -> None:
    steps = [(100 + step, STEP) for step in range(300)]
    job_id = ended_job(
        gateway, [(10, 500)], [(20, "training"), *steps, (400, "<b>saving</b>\u202e")]
    )
    phases = open_job(page, gateway, job_id)

    expect(phases.get_by_role("listitem")).to_have_text(
        [
            "validation and queue 10s,",
            "starting 10s,",
            "training 6m 20s,",
            "<b>saving</b>\u202e 1m 40s",
        ]
    )
    expect(page.get_by_text("Only the first and latest events are loaded")).to_be_visible()


def test_the_phases_of_a_running_job_are_live(page: Page, gateway: GatewayClient) -> None:
    job_id = gateway.submit("forever")
    gateway.wait_until(job_id, "running")
    phases = open_job(page, gateway, job_id)
    expect(phases.get_by_role("listitem").last).to_contain_text("training")

    page.get_by_role("button", name="pause").click()
    expect(phases.get_by_role("listitem").last).to_contain_text("paused")
    page.get_by_role("button", name="resume").click()

    training = phases.get_by_role("listitem").filter(has_text="training")
    expect(training).to_contain_text("over 2 periods")
    expect(phases).to_contain_text("between attempts")
    page.get_by_role("button", name="cancel").click()
    expect(page.locator(".status.cancelled")).to_be_visible()
