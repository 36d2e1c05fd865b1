"""Jobs on real processes (gateway, broker, worker, watchdog, child), which are killed in turn."""

import contextlib
import os
import signal
import sqlite3
from typing import Any

import psutil
import pytest

from services.core.process.reporter import PAUSE
from tests.integration.conftest import SHORT_LEASE_SECONDS, Platform
from tests.support.processes import Process
from tests.support.waiting import wait_for

LONG_GRACE_SECONDS = "600"
"""More than a test may take: what waits for its end has failed."""
NO_SLOT = "waiting for 1 CPU slot; 0 free on test-host"


def pid_of(platform: Platform, job_id: str, name: str = "pid") -> int:
    file = platform.job_file(job_id, name)
    text = wait_for(lambda: (file.read_text() or None) if file.exists() else None, str(file))
    return int(text)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


def metric_steps(platform: Platform, job_id: str) -> list[int]:
    """The steps whose metrics are recorded, in the order of their events."""
    events = platform.client.events(job_id)
    return [event["data"]["step"] for event in events if event["type"] == "metrics"]


def running(platform: Platform, job_id: str, beyond: int = 2) -> dict[str, Any]:
    """Wait until the job's child has reported more than ``beyond`` steps."""
    platform.client.wait_until(job_id, "running")

    def progress() -> dict[str, Any] | None:
        job = platform.client.job(job_id)
        return job if job["progress"] and job["progress"]["step"] > beyond else None

    return wait_for(progress, "progress")


def wait_for_next_attempt(platform: Platform, before: dict[str, Any]) -> None:
    """Wait until a job has started another attempt."""
    job_id, attempt = before["id"], before["attempt"]
    wait_for(lambda: platform.client.job(job_id)["attempt"] > attempt, "another attempt")


def stop(platform: Platform, worker: Process) -> None:
    """Stop a worker between two transactions.

    Within a transaction it would hold the write lock of SQLite until it continues, and no other
    worker could claim its job. PostgreSQL aborts such transactions.
    """
    process = psutil.Process(worker.pid)
    while True:
        os.kill(worker.pid, signal.SIGSTOP)
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED, "the worker has stopped")
        if can_be_written(platform):
            return
        os.kill(worker.pid, signal.SIGCONT)


def can_be_written(platform: Platform) -> bool:
    """Whether the write lock of an SQLite database is or soon becomes free."""
    if "TEMPER_DATABASE_URL" in platform.settings:
        return True
    file = platform.folder / "home" / "temper.db"
    with contextlib.closing(sqlite3.connect(file, timeout=1.0, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        database.execute("ROLLBACK")
    return True


def test_a_job_runs_to_success_with_its_events(platform: Platform) -> None:
    platform.start_worker()

    job_id = platform.client.submit("succeed")
    job = platform.client.wait_until(job_id, "succeeded")

    assert job["progress"]["percent"] == 100.0
    assert job["attempt"] == 1
    events = platform.client.events(job_id)
    assert [event["data"]["step"] for event in events if event["type"] == "metrics"] == [
        *range(1, 6)
    ]
    messages = [event["message"] for event in events]
    assert messages[0] == "Job created; validating its files"
    assert messages[-1] == "Succeeded"


def test_a_failed_job_reports_its_cause_and_the_tail_of_its_log(platform: Platform) -> None:
    platform.start_worker()

    told = platform.client.submit("fail")
    crashed = platform.client.submit("crash")

    error = platform.client.wait_until(told, "failed")["error"]
    assert error == {
        "code": "bad_data",
        "message": "row 3: nothing there",
        "param": "training_file",
        "hint": "Correct the row, upload the file again, and submit a new job.",
        "rows": [],
    }
    error = platform.client.wait_until(crashed, "failed")["error"]
    assert (error["code"], error["message"]) == (
        "process_killed",
        "the process was killed by SIGSEGV; 3 attempts were lost without progress",
    )
    last = platform.client.events(crashed)[-1]
    assert last["level"] == "error"
    assert last["data"]["log_tail"] == ["a line of the log"] * 3


def test_invalid_files_fail_the_job_before_it_queues(platform: Platform) -> None:
    platform.start_worker()

    job_id = platform.client.submit("invalid")

    job = platform.client.wait_until(job_id, "failed")
    assert job["attempt"] == 0
    assert job["error"]["param"] == "training_file"


def test_cancellation_ends_the_process_tree_and_frees_the_slot(platform: Platform) -> None:
    platform.start_worker()
    job_id = platform.client.submit("forever")
    running(platform, job_id)
    waiting = platform.client.submit("succeed")  # not before: it might be valid first, and end
    pids = [pid_of(platform, job_id), pid_of(platform, job_id, "daemon")]
    wait_for(lambda: platform.client.job(waiting)["queue_reason"] == NO_SLOT, "the reason")

    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")

    assert all(gone(pid) for pid in pids)
    platform.client.wait_until(waiting, "succeeded")


def test_a_job_resumes_after_its_worker_is_killed_without_waiting_for_the_lease(
    platform: Platform,
) -> None:
    worker = platform.start_worker(lease_seconds=3600.0)
    job_id = platform.client.submit("forever")
    before = running(platform, job_id)
    pids = [pid_of(platform, job_id), pid_of(platform, job_id, "daemon")]

    worker.kill()

    wait_for(lambda: all(gone(pid) for pid in pids), "the end of the process tree")
    platform.start_worker()
    wait_for_next_attempt(platform, before)
    running(platform, job_id, beyond=before["progress"]["step"])
    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")
    steps = metric_steps(platform, job_id)
    assert steps == sorted(set(steps)), "no report is recorded twice"


@pytest.mark.drill
def test_a_job_resumes_after_its_worker_and_watchdog_are_killed(platform: Platform) -> None:
    worker = platform.start_worker(lease_seconds=SHORT_LEASE_SECONDS)
    job_id = platform.client.submit("forever")
    before = running(platform, job_id)
    child, daemon = pid_of(platform, job_id), pid_of(platform, job_id, "daemon")
    watchdog = psutil.Process(child).ppid()

    os.kill(watchdog, signal.SIGSTOP)  # otherwise it could end the tree and itself first
    for pid in (worker.pid, watchdog):
        os.kill(pid, signal.SIGKILL)
    platform.start_worker()

    wait_for_next_attempt(platform, before)
    wait_for(lambda: gone(child) and gone(daemon), "the end of the first attempt's tree")
    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")


@pytest.mark.drill
def test_a_worker_suspended_past_its_lease_does_not_disturb_its_successor(
    platform: Platform,
) -> None:
    stopped = platform.start_worker(lease_seconds=SHORT_LEASE_SECONDS)
    job_id = platform.client.submit("forever")
    before = running(platform, job_id)
    first = pid_of(platform, job_id)

    try:
        stop(platform, stopped)
        wait_for(lambda: gone(first), "the end of the first child by its watchdog")
        platform.start_worker()
        wait_for_next_attempt(platform, before)
        wait_for(lambda: pid_of(platform, job_id) != first, "a second child")
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    second = pid_of(platform, job_id)
    wait_for(lambda: "was taken from" in stopped.tail(), "the first worker's insight")

    step = platform.client.job(job_id)["progress"]["step"]
    running(platform, job_id, beyond=step)
    assert pid_of(platform, job_id) == second
    assert not gone(second)
    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")


@pytest.mark.drill
def test_a_worker_that_shuts_down_requeues_its_job(platform: Platform) -> None:
    worker = platform.start_worker()
    job_id = platform.client.submit("forever")
    before = running(platform, job_id)
    pids = [pid_of(platform, job_id), pid_of(platform, job_id, "daemon")]

    assert worker.end() == 0

    assert all(gone(pid) for pid in pids)
    job = platform.client.wait_until(job_id, "queued")
    assert job["error"] is None
    platform.start_worker()
    wait_for_next_attempt(platform, before)
    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")


def test_a_planned_stop_loses_no_step_of_running_jobs(platform: Platform) -> None:
    platform.settings |= {"TEMPER_GRACE_SECONDS": LONG_GRACE_SECONDS, "TEMPER_CPU_SLOTS": "2"}
    worker = platform.start_worker()
    stopped = [running(platform, platform.client.submit("unsaved")) for _ in range(2)]

    assert worker.end() == 0

    queued = [platform.client.wait_until(job["id"], "queued") for job in stopped]
    reached = [job["progress"]["step"] for job in queued]
    assert all(step > 2 for step in reached)
    platform.start_worker()
    for job, step in zip(queued, reached, strict=True):
        wait_for_next_attempt(platform, job)
        running(platform, job["id"], beyond=step)
        platform.client.cancel(job["id"])
        platform.client.wait_until(job["id"], "cancelled")
        assert (reported := metric_steps(platform, job["id"])) == [*range(1, len(reported) + 1)]


def test_a_second_signal_stops_a_worker_whose_job_does_not_save(platform: Platform) -> None:
    platform.settings["TEMPER_GRACE_SECONDS"] = LONG_GRACE_SECONDS
    worker = platform.start_worker()
    job_id = platform.client.submit("quiet")
    child = pid_of(platform, job_id)

    os.kill(worker.pid, signal.SIGTERM)
    wait_for(platform.job_file(job_id, PAUSE).exists, "the question for a checkpoint")
    assert not gone(child)

    assert worker.end() == 0
    assert gone(child)
    assert platform.client.wait_until(job_id, "queued")["error"] is None


def test_a_new_worker_finds_jobs_queued_before_it_started(platform: Platform) -> None:
    jobs = [platform.client.submit("succeed") for _ in range(3)]

    platform.start_worker()

    for job_id in jobs:
        platform.client.wait_until(job_id, "succeeded")
