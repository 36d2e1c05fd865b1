"""How the exit of a child changes its job."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from services.contracts.errors import JobFailed
from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.process.reporter import NEEDS_DEVICE
from services.jobs.claims import Claim, Claimant
from services.jobs.devices import HostDevices, free_devices
from services.jobs.events import events_before
from services.jobs.job import REMOTE_SLOT, Job
from services.jobs.pause import request_pause
from services.jobs.reconcile import MAX_LOSSES
from services.jobs.store import request_cancel
from services.jobs.worker.outcome import MAX_RESULT_BYTES, ChildExit, read_result, settle, succeeded
from services.jobs.worker.reports import CheckpointReport, record_reports
from tests.unit.jobs.machine import (
    claim,
    cpu_worker,
    new_job,
    queued_job,
    read,
    try_claim,
    try_claim_validation,
)


class Handler:
    def validation(self, *_: Any) -> None: ...

    def work(self, *_: Any) -> Any: ...

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        if result.get("broken"):
            raise JobFailed("not what it seems")
        return {"kept": result["value"]}


def ending(
    result: dict[str, Any] | None = None,
    *,
    returncode: int = 0,
    cancelled: bool = False,
    stopping: bool = False,
    expired: bool = False,
    paused: bool = False,
) -> ChildExit:
    tail = ["last line"]
    return ChildExit(returncode, result, cancelled, stopping, expired, tail, paused=paused)


def settled(database: Database, held: Claim, end: ChildExit, retry_seconds: float = 0.0) -> Job:
    with database.write() as session:
        settle(session, held, Handler(), end, retry_seconds)
    return read(database, held.job.id)


@pytest.fixture
def held(database: Database) -> Claim:
    queued_job(database)
    return claim(database, cpu_worker())


def test_a_successful_result_frees_the_slot(database: Database, held: Claim) -> None:
    job = settled(database, held, ending({"status": "succeeded", "value": 7}))

    assert (job.status, job.result) == (JobStatus.SUCCEEDED, {"kept": 7})
    with database.read() as session:
        assert free_devices(session, held.devices) == list(held.devices)


def test_a_success_counts_despite_a_late_cancellation(database: Database, held: Claim) -> None:
    with database.write() as session:
        request_cancel(session, held.job.id)

    job = settled(database, held, ending({"status": "succeeded", "value": 7}, cancelled=True))

    assert job.status is JobStatus.SUCCEEDED


def test_a_cancelled_child_without_result_cancels_the_job(database: Database, held: Claim) -> None:
    assert settled(database, held, ending(returncode=-15, cancelled=True)).status is (
        JobStatus.CANCELLED
    )


def test_a_child_that_saved_for_a_pause_frees_the_slot(database: Database, held: Claim) -> None:
    with database.write() as session:
        request_pause(session, held.job.id)

    job = settled(database, held, ending({"status": "paused"}))

    assert (job.status, job.owner, job.phase) == (JobStatus.PAUSED, None, None)
    with database.read() as session:
        assert free_devices(session, held.devices) == list(held.devices)


OUTAGE = {"status": "paused", "outage": {"message": "search is down", "seconds": 60.0}}


def test_a_child_in_an_outage_frees_the_slot_and_is_tried_again_later(
    database: Database, held: Claim
) -> None:
    job = settled(database, held, ending(OUTAGE))

    assert (job.status, job.owner, job.queue_reason) == (JobStatus.PAUSED, None, "search is down")
    assert job.not_before is not None
    with database.read() as session:
        assert free_devices(session, held.devices) == list(held.devices)
        (event,) = events_before(session, job.id, None, 1)
    assert event.level == "warn"
    assert event.message == "Paused: search is down; tried again in 60 s"


def test_a_pause_on_request_outlasts_an_outage(database: Database, held: Claim) -> None:
    with database.write() as session:
        request_pause(session, held.job.id)

    job = settled(database, held, ending(OUTAGE))

    assert (job.status, job.not_before) == (JobStatus.PAUSED, None)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (ending(returncode=-15, paused=True), JobStatus.PAUSED),
        (ending(returncode=-15, stopping=True), JobStatus.PAUSED),
        (ending(returncode=-15, expired=True), JobStatus.PAUSED),
        (ending(returncode=-9), JobStatus.PAUSED),
        (ending({"status": "succeeded", "value": 7}), JobStatus.SUCCEEDED),
        (ending({"status": "failed", "error": {"code": "bad_data"}}), JobStatus.FAILED),
        (ending({"status": "paused"}, cancelled=True), JobStatus.CANCELLED),
    ],
)
def test_a_pausing_job_ends_paused_unless_it_was_decided_otherwise(
    database: Database, held: Claim, end: ChildExit, status: JobStatus
) -> None:
    with database.write() as session:
        request_pause(session, held.job.id)

    job = settled(database, held, end)

    assert (job.status, job.pause_requested_at) == (status, None)


def test_a_job_paused_while_validating_is_held_once_its_files_are_valid(
    database: Database,
) -> None:
    job = new_job(database)
    validation = try_claim_validation(database, cpu_worker())
    assert validation is not None
    with database.write() as session:
        request_pause(session, job.id)

    held = settled(database, validation, ending({"status": "succeeded"}))

    assert held.status is JobStatus.PAUSED
    assert try_claim(database, cpu_worker()) is None


@pytest.mark.parametrize("devices", [None, [0]])
def test_a_job_whose_validation_leaves_it_without_need_of_a_device_waits_for_none(
    database: Database, devices: list[int | str] | None
) -> None:
    new_job(database, gpus=1, devices=devices)
    validation = try_claim_validation(database, cpu_worker())
    assert validation is not None
    without = Claimant("host:a", HostDevices("host", (), 0, remote_slots=1), 60.0)

    settled(database, validation, ending({"status": "succeeded", "needs_device": False}))

    # One that names its devices gets them in any case.
    assert (try_claim(database, without) is None) == (devices is not None)


def test_a_shutdown_requeues_the_job(database: Database, held: Claim) -> None:
    job = settled(database, held, ending(returncode=-15, stopping=True))

    assert (job.status, job.losses, job.owner) == (JobStatus.QUEUED, 0, None)


@pytest.mark.parametrize(
    ("result", "status"), [({"status": "paused"}, JobStatus.QUEUED), (OUTAGE, JobStatus.PAUSED)]
)
def test_a_job_that_saved_at_a_shutdown_goes_on_unless_it_waits_for_the_end_of_an_outage(
    database: Database, held: Claim, result: dict[str, Any], status: JobStatus
) -> None:
    job = settled(database, held, ending(result, stopping=True))

    assert (job.status, job.losses) == (status, 0)


def test_a_shutdown_releases_the_validation(database: Database) -> None:
    job = new_job(database)
    first = try_claim_validation(database, cpu_worker("a"))
    assert first is not None

    settled(database, first, ending(returncode=-15, stopping=True))

    again = try_claim_validation(database, cpu_worker("b"))
    assert again is not None
    assert again.job.id == job.id


@pytest.mark.parametrize(
    ("returncode", "code", "words"),
    [
        (0, "process_crashed", "ended with code 0 and no result"),
        (3, "process_crashed", "ended with code 3"),
        (-9, "process_killed", "killed by SIGKILL"),
        (-11, "process_killed", "killed by SIGSEGV"),
    ],
)
def test_a_job_whose_process_keeps_dying_fails_naming_the_process(
    database: Database, returncode: int, code: str, words: str
) -> None:
    queued_job(database)
    for _ in range(MAX_LOSSES):
        job = settled(database, claim(database, cpu_worker()), ending(returncode=returncode))

    assert (job.status, job.attempt) == (JobStatus.FAILED, MAX_LOSSES)
    assert job.error is not None
    assert job.error.code == code
    assert words in job.error.message


def test_a_dead_process_costs_an_attempt_and_the_next_one_waits(
    database: Database, held: Claim
) -> None:
    job = settled(database, held, ending(returncode=-9), retry_seconds=5.0)

    assert (job.status, job.losses) == (JobStatus.QUEUED, 1)
    assert try_claim(database, cpu_worker()) is None
    other = queued_job(database)
    assert claim(database, cpu_worker()).job.id == other.id
    with database.read() as session:
        event = events_before(session, job.id, None, 1)[0]
    assert "killed by SIGKILL" in event.message
    assert "resumes from its last checkpoint in 5 s" in event.message
    assert event.data == {"log_tail": ["last line"]}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("OSError: [Errno 28] No space left on device: 'x'", "storage_full"),
        ("MemoryError", "out_of_memory"),
    ],
)
def test_a_process_that_ran_out_of_a_resource_fails_with_that_reason(
    database: Database, held: Claim, line: str, code: str
) -> None:
    job = settled(database, held, replace(ending(returncode=1), log_tail=["Traceback", line]))

    assert job.error is not None
    assert (job.status, job.error.code) == (JobStatus.FAILED, code)
    assert line in job.error.message


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ending(returncode=-15), "deadline_exceeded"),
        (ending({"status": "paused"}), "deadline_exceeded"),
        (ending({"status": "failed", "error": {"code": "diverged"}}), "diverged"),
    ],
)
def test_a_child_stopped_at_the_deadline_fails_with_it_unless_it_has_failed_itself(
    database: Database, held: Claim, end: ChildExit, code: str
) -> None:
    job = settled(database, held, replace(end, overdue=True))

    assert job.error is not None
    assert (job.status, job.error.code) == (JobStatus.FAILED, code)


def test_a_job_whose_processes_hold_too_much_memory_fails_with_that_cause(
    database: Database, held: Claim
) -> None:
    job = settled(database, held, replace(ending(returncode=-9), exhausted="tree"))

    assert job.error is not None
    assert (job.status, job.error.code) == (JobStatus.FAILED, "out_of_memory")
    assert "TEMPER_JOB_MEMORY_GIB" in job.error.message


def test_a_process_that_the_kernel_killed_for_memory_is_tried_again(
    database: Database, held: Claim
) -> None:
    job = settled(database, held, replace(ending(returncode=-9), exhausted="machine"))

    assert (job.status, job.losses) == (JobStatus.QUEUED, 1)
    with database.read() as session:
        message = events_before(session, job.id, None, 1)[0].message
    assert "machine ran out of memory" in message


ROW = {"row": 3, "message": "messages is empty"}


@pytest.mark.parametrize(
    ("rows", "kept"), [([ROW], [ROW]), (None, []), ([ROW, {"row": "x"}], []), ("rows", [])]
)
def test_the_unusable_rows_that_a_child_names_are_in_the_error(
    database: Database, held: Claim, rows: Any, kept: list[dict[str, Any]]
) -> None:
    error = {"code": "invalid_training_file", "message": "row 3", "rows": rows}
    job = settled(database, held, ending({"status": "failed", "error": error}))

    assert job.error is not None
    assert job.error.model_dump()["rows"] == kept


def test_a_process_that_could_not_write_its_result_fails_naming_the_disk(
    database: Database, held: Claim
) -> None:
    job = settled(database, held, replace(ending(returncode=1), disk_full=True))

    assert job.error is not None
    assert (job.status, job.error.code) == (JobStatus.FAILED, "storage_full")


@pytest.mark.parametrize(("retryable", "status"), [(True, "queued"), (False, "failed")])
def test_a_failure_is_retried_if_the_child_says_so(
    database: Database, held: Claim, retryable: bool, status: str
) -> None:
    error = {"code": "engine_died", "message": "the engine died", "retryable": retryable}

    job = settled(database, held, ending({"status": "failed", "error": error}))

    assert job.status == status


def test_a_killed_watchdog_is_not_reported_as_a_lack_of_memory(
    database: Database, held: Claim
) -> None:
    job = settled(database, held, replace(ending(returncode=-9), unsupervised=True))

    assert (job.status, job.losses) == (JobStatus.QUEUED, 1)
    with database.read() as session:
        message = events_before(session, job.id, None, 1)[0].message
    assert "watchdog" in message
    assert "memory" not in message


def test_losses_are_counted_since_the_last_progress(database: Database) -> None:
    queued_job(database)
    for step in range(1, 3 * MAX_LOSSES):
        held = claim(database, cpu_worker())
        report = CheckpointReport(type="checkpoint", step=step, path=f"checkpoint-{step}")
        with database.write() as session:
            record_reports(session, held, [report], step)
        job = settled(database, held, ending(returncode=-9))
        assert (job.status, job.losses) == (JobStatus.QUEUED, 1)


def test_a_result_refused_by_the_handler_raises(database: Database, held: Claim) -> None:
    with pytest.raises(JobFailed):
        settled(database, held, ending({"status": "succeeded", "broken": True}))

    assert read(database, held.job.id).status is JobStatus.RUNNING


def test_a_cancellation_during_a_successful_validation_counts(
    database: Database,
) -> None:
    new_job(database)
    held = try_claim_validation(database, cpu_worker())
    assert held is not None
    with database.write() as session:
        request_cancel(session, held.job.id)

    assert settled(database, held, ending({"status": "succeeded"})).status is JobStatus.CANCELLED


def test_an_expired_lease_of_a_live_worker_is_no_loss(database: Database, held: Claim) -> None:
    job = settled(database, held, ending(returncode=-15, expired=True))

    assert (job.status, job.losses, job.error) == (JobStatus.QUEUED, 0, None)


def test_failures_of_a_stopped_child_do_not_count(database: Database, held: Claim) -> None:
    failure = {"status": "failed", "error": {"code": "engine_died", "message": "gone"}}

    assert settled(database, held, ending(failure, stopping=True)).status is JobStatus.QUEUED


@pytest.mark.parametrize(
    "content",
    [b"no json", b"[1]", b"\xff", b"[" * 100_000, b" " * (MAX_RESULT_BYTES + 1)],
    ids=["text", "list", "bytes", "deep", "large"],
)
def test_an_unreadable_result_is_a_failure(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)

    result = read_result(tmp_path)

    assert result is not None
    assert result["error"]["code"] == "bad_result"


def test_a_link_or_pipe_in_place_of_a_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"status": "succeeded"}')
    (tmp_path / "result.json").symlink_to(tmp_path / "elsewhere")
    assert not succeeded(read_result(tmp_path))

    (tmp_path / "result.json").unlink()
    os.mkfifo(tmp_path / "result.json")
    assert not succeeded(read_result(tmp_path))


def test_a_result_is_sanitized_for_the_database(tmp_path: Path) -> None:
    text = '{"status": "succeeded", "loss": NaN, "text": "a\\u0000\\ud800", "n": 1e999}'
    (tmp_path / "result.json").write_text(text)

    assert read_result(tmp_path) == {
        "status": "succeeded",
        "loss": None,
        "text": "a\ufffd?",
        "n": None,
    }


class Checking(Handler):
    """Checks a valid job before it waits for a device."""

    def needs_device(self, _session: Session, job: Job, _result: dict[str, Any]) -> bool:
        if job.request["model"] == "nobody":
            raise JobFailed("there is no model 'nobody'")
        return False


def test_a_handler_may_spare_a_valid_job_its_device(database: Database) -> None:
    new_job(database, gpus=None)
    held = try_claim_validation(database, cpu_worker())
    assert held is not None
    with database.write() as session:
        settle(session, held, Checking(), ending({"status": "succeeded"}), 0.0)

    job = read(database, held.job.id)
    assert (job.status, job.gpus) == (JobStatus.QUEUED, REMOTE_SLOT)


def test_a_job_that_began_without_a_device_goes_on_with_one(database: Database) -> None:
    new_job(database, gpus=None, asked={"gpus": 2})
    validating = try_claim_validation(database, cpu_worker())
    assert validating is not None
    with database.write() as session:
        settle(session, validating, Checking(), ending({"status": "succeeded"}), 0.0)
    host = HostDevices("host", (), 0, (), 1)
    held = claim(database, Claimant("host:b", host, 60.0))

    ended = {"status": "failed", "error": {"code": NEEDS_DEVICE, "message": "it has ended"}}
    job = settled(database, held, ending(ended))

    assert (job.status, job.gpus, job.losses) == (JobStatus.QUEUED, 2, 0)


def test_a_job_that_its_handler_refuses_waits_for_no_device(database: Database) -> None:
    new_job(database, gpus=None, asked={"model": "nobody"})
    held = try_claim_validation(database, cpu_worker())
    assert held is not None

    with (
        pytest.raises(JobFailed, match="nobody"),
        database.write() as session,
    ):
        settle(session, held, Checking(), ending({"status": "succeeded"}), 0.0)

    assert read(database, held.job.id).status is JobStatus.VALIDATING_FILES
