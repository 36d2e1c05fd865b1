"""The trackers' own packages, offline: one run that is interrupted, continued and read back."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from services.core.db.engine import Database
from services.core.process.reporter import Reporter
from services.core.process.runtimes import REPOSITORY, child_environment
from services.core.process.supervised import lease_clock
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job
from services.jobs.tracking.selection import TrackerName, select_trackers
from services.jobs.tracking.tracker import End
from services.jobs.worker import trackers as processes
from services.jobs.worker.trackers import FOLDER, JobTrackers
from tests.support.database import database, migrated
from tests.support.runtimes import FOLDER as RUNTIMES
from tests.support.runtimes import installed_runtime
from tests.support.waiting import wait_for

__all__ = ["database", "migrated"]

pytestmark = [pytest.mark.runtime, pytest.mark.drill]

JOB = "ftjob-0123456789abcdef01234567"
OFFLINE = {"WANDB_MODE": "offline", "SWANLAB_MODE": "offline"}
LOSSES = [[step, 1.0 / 2**step] for step in range(1, 6)]


def test_every_tracker_has_every_step_once_after_an_interruption(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 240.0)
    python = installed_runtime("tracking").python
    job_dir = tmp_path / "job"
    job_dir.mkdir()
    reporter = Reporter(job_dir)
    add_trajectory(job_dir)

    report(reporter, 1, 2, 3)
    first = started(job, job_dir, tmp_path)
    wait_for(lambda: has_delivered(first, job_dir), "the first three steps", 240)
    first.stop()
    report(reporter, 3, 4, 5)  # resumed from the checkpoint of step 2
    second = started(job, job_dir, tmp_path)
    second.finish(End.SUCCEEDED, 240.0, lambda: None)

    assert (first.warnings, second.warnings) == ([], [])
    kept = {name: read_back(python, name, tmp_path) for name in ("tensorboard", *TrackerName)}
    assert {name: each["points"]["loss"] for name, each in kept.items()} == dict.fromkeys(
        kept, LOSSES
    )
    assert '"model": "m"' in kept["tensorboard"]["text"]
    assert "because" in kept["tensorboard"]["text"]
    assert kept["mlflow"]["states"] == ["FINISHED"]
    assert json.loads(kept["mlflow"]["text"])["model"] == "m"
    assert kept["wandb"]["names"] == [["chosen", "named"]]
    assert kept["wandb"]["states"][-1] == 0


@pytest.fixture
def job(database: Database) -> Job:
    """A job that names a project of W&B's."""
    wandb = {"type": "wandb", "wandb": {"project": "chosen", "name": "named"}}
    request = {"model": "m", "integrations": [wandb]}
    new = NewJob(JOB, "fine_tuning", "training", "training.validation", request)
    with database.write() as session:
        return create_job(session, new)


def started(job: Job, job_dir: Path, home: Path) -> JobTrackers:
    """All trackers of a job, running."""
    selection = select_trackers(
        job, list(TrackerName), job_dir=job_dir, home=home, runtimes=RUNTIMES, environ=OFFLINE
    )
    trackers = JobTrackers(job_dir, f"{JOB}:1")
    trackers.start(selection, lease_clock() + 600)
    return trackers


def report(reporter: Reporter, *steps: int) -> None:
    for step in steps:
        reporter.metrics(step, loss=1.0 / 2**step)


def add_trajectory(job_dir: Path) -> None:
    record = {"messages": [{"content": "why?"}], "turns": [{"text": "because"}], "reward": 1.0}
    (job_dir / "trajectories.jsonl").write_text(json.dumps(record) + "\n")


def has_delivered(trackers: JobTrackers, job_dir: Path) -> bool:
    """Whether every tracker has stored the position at the end of the reports."""
    trackers.check()
    assert trackers.warnings == []
    size = (job_dir / "reports.jsonl").stat().st_size
    files = list((job_dir / FOLDER).glob("*/position.json"))
    positions = [json.loads(file.read_bytes())["reports"] for file in files]
    return positions == [size] * (1 + len(TrackerName))


def read_back(python: Path, name: str, home: Path) -> dict[str, Any]:
    """What a tracker recorded, read with its own package."""
    data = home / "trackers"
    run = subprocess.run(
        [python, "-m", "tests.support.jobs.tracked", name, home / "job", data, JOB],
        cwd=REPOSITORY,
        env=child_environment({"TRACKIO_DIR": str(data / "trackio")}),
        capture_output=True,
        timeout=240,
        check=True,
    )
    kept: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return kept
