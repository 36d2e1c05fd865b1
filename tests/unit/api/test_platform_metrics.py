"""What a scrape of the gateway tells of failing infrastructure."""

from pathlib import Path

from prometheus_client import generate_latest

from services.api.metrics import create_registry
from services.contracts.jobs import JobStatus
from services.core.db.engine import Database, now
from services.core.db.migrate import migrate
from services.jobs.events import append_event
from services.jobs.store import move_job
from tests.unit.jobs.machine import claim, cpu_worker, queued_job


def test_losses_of_running_jobs_and_jobs_in_an_outage_are_reported(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    queued_job(database)
    waiting = claim(database, cpu_worker("a", slots=2)).job
    running = queued_job(database)
    claim(database, cpu_worker("a", slots=2))
    older = {"samples_left_out": 1.0}
    newer = {"samples_left_out": 3.0, "infrastructure_failures/search": 5.0, "reward": None}
    with database.write() as session:
        later = now(session) + 60.0
        move_job(session, waiting, JobStatus.PAUSED, "Paused", not_before=later)
        for data in (older, newer):
            append_event(session, running.id, "Step", type="metrics", data=data)

    scraped = generate_latest(create_registry(database)).decode()

    database.close()
    labels = f'job="{running.id}",kind="fine_tuning"'
    assert f"temper_samples_left_out{{{labels}}} 3.0" in scraped
    assert f'temper_infrastructure_failures{{{labels},source="search"}} 5.0' in scraped
    assert "temper_jobs_in_outage 1.0" in scraped
