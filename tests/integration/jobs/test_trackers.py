"""Trackers of jobs on real processes: the job runs in spite of them, and they miss nothing."""

import os
import signal
from typing import Any

import psutil
import pytest

from tests.integration.conftest import SHORT_LEASE_SECONDS, Platform
from tests.support.jobs.event_file import steps_of_loss
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.drill,
    pytest.mark.parametrize("platform", ["sqlite+files"], indirect=True),
]


def running(platform: Platform, job_id: str, beyond: int = 2) -> dict[str, Any]:
    """Wait until the job's child has reported more than ``beyond`` steps."""

    def progress() -> dict[str, Any] | None:
        job = platform.client.job(job_id)
        return job if job["progress"] and job["progress"]["step"] > beyond else None

    return wait_for(progress, "progress")


def tracker_of(platform: Platform, job_id: str) -> psutil.Process:
    """The process that writes the event file of a running job."""
    folder = str(platform.job_file(job_id, ".tracking"))

    def find() -> psutil.Process | None:
        for process in psutil.process_iter(["cmdline"]):
            arguments = process.info["cmdline"] or []
            is_child = "services.jobs.tracking.child" in arguments[:3]
            if is_child and any(each.startswith(folder) for each in arguments):
                return process
        return None

    return wait_for(find, "the tracker's process")


def tracked(platform: Platform, job_id: str) -> list[int]:
    """The steps in the event file of a job."""
    (file,) = platform.job_file(job_id, "tensorboard").iterdir()
    return steps_of_loss(file.read_bytes())


def reported(platform: Platform, job_id: str) -> list[int]:
    """The steps in the events of a job."""
    events = platform.client.events(job_id)
    return [event["data"]["step"] for event in events if event["type"] == "metrics"]


def warnings(platform: Platform, job_id: str) -> list[str]:
    events = platform.client.events(job_id)
    return [event["message"] for event in events if event["level"] == "warn"]


def test_each_step_is_tracked_once_although_the_worker_is_killed(platform: Platform) -> None:
    worker = platform.start_worker(lease_seconds=SHORT_LEASE_SECONDS)
    job_id = platform.client.submit("forever")
    before = running(platform, job_id)
    first = tracker_of(platform, job_id)

    worker.kill()
    wait_for(lambda: not first.is_running(), "the end of the first tracker")
    platform.start_worker()
    wait_for(lambda: platform.client.job(job_id)["attempt"] > 1, "another attempt")
    running(platform, job_id, beyond=before["progress"]["step"] + 5)
    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")

    assert tracked(platform, job_id) == reported(platform, job_id)


def test_a_killed_and_a_missing_tracker_leave_the_job_running(platform: Platform) -> None:
    platform.settings["TEMPER_TRACKERS"] = "swanlab"
    platform.settings["TEMPER_RUNTIMES"] = str(platform.folder / "none")
    platform.start_worker()
    job_id = platform.client.submit("forever")
    running(platform, job_id)

    tracker_of(platform, job_id).kill()

    wait_for(lambda: len(warnings(platform, job_id)) == 2, "both warnings")
    missing, killed = warnings(platform, job_id)
    assert "swanlab does not track this job: runtime 'tracking' is not installed" in missing
    assert killed == "The tracker tensorboard failed: killed by SIGKILL"
    running(platform, job_id, beyond=platform.client.job(job_id)["progress"]["step"])
    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")


def test_a_hanging_tracker_holds_up_the_end_of_a_job_for_a_bounded_time(
    platform: Platform,
) -> None:
    platform.settings["TEMPER_TRACKER_SECONDS"] = "1"
    platform.start_worker()
    job_id = platform.client.submit("forever")
    running(platform, job_id)
    process = tracker_of(platform, job_id)
    os.kill(process.pid, signal.SIGSTOP)

    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")

    assert not process.is_running()
    late = "The tracker tensorboard did not finish in time and was stopped"
    assert warnings(platform, job_id) == [late]
