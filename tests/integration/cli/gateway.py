"""A gateway without workers, and a submission to it by the command line."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import Database
from services.jobs.events import append_event
from services.jobs.store import fail_job, get_job, move_job
from temper.cli.main import main


@dataclass
class Gateway:
    """A running gateway, and the database behind it."""

    url: str
    home: Path
    database: Database

    def start(self, job_id: str) -> None:
        """Start a job."""
        for status in (JobStatus.QUEUED, JobStatus.RUNNING):
            with self.database.write() as session:
                move_job(session, get_job(session, job_id), status, f"now {status}")

    def step(self, job_id: str, number: int) -> None:
        """Report the metrics of a step."""
        with self.database.write() as session:
            data = {"step": number, "loss": 1.5, "learning_rate": 0.001}
            append_event(session, job_id, f"Step {number}", type="metrics", data=data)

    def end(self, job_id: str, status: JobStatus) -> None:
        """End a running job."""
        with self.database.write() as session:
            job = get_job(session, job_id)
            if status is JobStatus.FAILED:
                fail_job(session, job, JobError(code="out_of_memory", message="no memory"))
            else:
                move_job(session, job, status, f"now {status}")


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def submitted(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Submit the job file and return the job's id."""
    capsys.readouterr()
    assert main(["submit", "job.yaml", *options, "--json"]) == 0
    job_id: str = json.loads(output(capsys))["id"]
    return job_id
