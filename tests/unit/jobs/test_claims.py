"""Claiming jobs: one owner, in order, all devices or none."""

import pytest
from sqlalchemy import delete, select

from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import Database
from services.core.db.tables import OutboxRow
from services.core.ids import new_id
from services.jobs.attempts import list_attempts
from services.jobs.claims import Claim, Claimant, check_claim, claim_work, renew_lease
from services.jobs.devices import HostDevices, release_devices, release_stale_devices
from services.jobs.job import REMOTE_SLOT, Job, LeaseLost, NewJob
from services.jobs.reconcile import give_up_claim
from services.jobs.store import create_job, move_job, request_cancel
from services.jobs.worker.reports import parse_report, record_reports
from services.jobs.workers import heartbeat
from tests.unit.jobs.machine import (
    claim,
    cpu_worker,
    gpu_worker,
    new_job,
    queued_job,
    read,
    try_claim,
    try_claim_validation,
)


def test_the_oldest_job_of_the_highest_priority_runs_first(database: Database) -> None:
    old = queued_job(database)
    queued_job(database)
    urgent = queued_job(database, priority=5)

    worker = cpu_worker(slots=3)

    assert [claim(database, worker).job.id for _ in range(2)] == [urgent.id, old.id]


def test_a_claim_marks_the_job_running_with_its_owner_and_attempt(database: Database) -> None:
    job = queued_job(database)

    claimed = claim(database, cpu_worker("a")).job

    assert (claimed.id, claimed.status, claimed.owner) == (job.id, JobStatus.RUNNING, "host:a")
    assert (claimed.attempt, claimed.epoch) == (1, job.epoch + 1)


def test_attempts_tell_who_held_a_job_with_what_and_how_it_ended(database: Database) -> None:
    job = queued_job(database, gpus=2)
    first = claim(database, gpu_worker("GPU-a", "GPU-b"))
    with database.write() as session:
        give_up_claim(session, first.job, JobError(code="worker_lost", message="it was lost"))
        release_devices(session, job.id, first.job.epoch)
    second = claim(database, gpu_worker("GPU-c", "GPU-d", host="other"))

    with database.read() as session:
        latest, earlier = list_attempts(session, job.id, None, 10)[0]
        page, has_more = list_attempts(session, job.id, latest.epoch, 1)
    assert (latest.attempt, latest.epoch, latest.host) == (2, second.job.epoch, "other")
    assert (latest.devices, latest.ended_at, latest.became) == (["GPU-c", "GPU-d"], None, None)
    assert (earlier.attempt, earlier.worker, earlier.became) == (1, "gpu-host:1", "queued")
    assert earlier.reason == "It was lost; the job resumes from its last checkpoint now"
    assert earlier.ended_at is not None
    assert ([row.epoch for row in page], has_more) == ([first.job.epoch], False)


def test_a_job_is_claimed_once(database: Database) -> None:
    queued_job(database)
    claim(database, cpu_worker("a", slots=2))

    assert try_claim(database, cpu_worker("b", slots=2)) is None


def test_workers_of_a_host_share_its_cpu_slots(database: Database) -> None:
    queued_job(database)
    waiting = queued_job(database)
    claim(database, cpu_worker("a", slots=1))

    assert try_claim(database, cpu_worker("b", slots=1)) is None
    assert read(database, waiting.id).queue_reason == "waiting for 1 CPU slot; 0 free on host"


def test_gpus_are_leased_all_or_none_and_exclusively(database: Database) -> None:
    first = queued_job(database, gpus=2)
    second = queued_job(database, gpus=2)
    worker = gpu_worker("GPU-a", "GPU-b", "GPU-c")

    held = claim(database, worker)
    waiting = try_claim(database, worker)

    assert (held.job.id, held.gpus) == (first.id, ("GPU-a", "GPU-b"))
    assert waiting is None
    assert read(database, second.id).queue_reason == "waiting for 2 GPUs; 1 free on gpu-host"


def test_a_job_waiting_for_many_gpus_is_not_overtaken(database: Database) -> None:
    queued_job(database, gpus=1)
    large = queued_job(database, gpus=2)
    queued_job(database, gpus=1)
    worker = gpu_worker("GPU-a", "GPU-b")

    running = claim(database, worker)
    assert try_claim(database, worker) is None

    with database.write() as session:
        move_job(session, running.job, JobStatus.SUCCEEDED, "done")
        release_devices(session, running.job.id, running.job.epoch)
    assert claim(database, worker).job.id == large.id


def test_a_job_too_large_for_this_host_is_skipped(database: Database) -> None:
    queued_job(database, gpus=4)
    small = queued_job(database, gpus=1)

    assert claim(database, gpu_worker("GPU-a")).job.id == small.id


def test_many_jobs_for_larger_hosts_do_not_hide_a_small_one(database: Database) -> None:
    for _ in range(120):
        queued_job(database, gpus=4)
    small = queued_job(database, gpus=1)

    assert claim(database, gpu_worker("GPU-a")).job.id == small.id


def test_a_job_waiting_for_gpus_does_not_block_cpu_slots(database: Database) -> None:
    worker = Claimant("host:1", HostDevices("host", ("GPU-a",), 1), 60.0)
    queued_job(database, gpus=1)
    queued_job(database, gpus=1)
    on_cpu = queued_job(database, gpus=0)
    claim(database, worker)

    assert claim(database, worker).job.id == on_cpu.id


def remote_worker(name: str, *, slots: int) -> Claimant:
    return Claimant(f"host:{name}", HostDevices("host", ("GPU-a",), 1, (), slots), 60.0)


def test_jobs_that_only_ask_remote_endpoints_take_neither_gpus_nor_cpu_slots(
    database: Database,
) -> None:
    worker = remote_worker("a", slots=2)
    for gpus in (REMOTE_SLOT, REMOTE_SLOT, 1, 0):
        queued_job(database, gpus=gpus)

    held = [claim(database, worker) for _ in range(4)]

    assert {each.devices for each in held} == {
        ("GPU-a",),
        ("cpu-host-0",),
        ("remote-host-0",),
        ("remote-host-1",),
    }
    assert [each.gpus for each in held if each.job.gpus == REMOTE_SLOT] == [(), ()]


def test_workers_of_a_host_share_its_remote_slots(database: Database) -> None:
    queued_job(database, gpus=REMOTE_SLOT)
    waiting = queued_job(database, gpus=REMOTE_SLOT)

    first = claim(database, remote_worker("a", slots=1))
    assert try_claim(database, remote_worker("b", slots=1)) is None

    reason = read(database, waiting.id).queue_reason
    assert reason == "waiting for 1 remote slot; 0 free on host"
    with database.write() as session:
        move_job(session, first.job, JobStatus.SUCCEEDED, "done")
        release_devices(session, first.job.id, first.job.epoch)
    assert claim(database, remote_worker("b", slots=1)).job.id == waiting.id


def test_a_gpu_used_by_another_program_is_not_leased(database: Database) -> None:
    queued_job(database, gpus=1)
    worker = gpu_worker("GPU-a", "GPU-b")

    assert claim(database, worker, occupied=frozenset({"GPU-a"})).gpus == ("GPU-b",)


def test_a_job_gets_exactly_the_devices_that_it_names(database: Database) -> None:
    queued_job(database, devices=["GPU-c", 0])

    assert claim(database, gpu_worker("GPU-a", "GPU-b", "GPU-c")).gpus == ("GPU-c", "GPU-a")


def test_a_job_waits_for_its_devices_and_says_who_holds_them(database: Database) -> None:
    holder = queued_job(database, devices=["GPU-a"])
    waiting = queued_job(database, devices=[0, 2])
    other = queued_job(database, gpus=1)
    last = queued_job(database, gpus=1)
    worker = gpu_worker("GPU-a", "GPU-b", "GPU-c")

    running = [claim(database, worker).job.id for _ in range(2)]

    assert running == [holder.id, other.id]
    assert try_claim(database, worker) is None  # GPU-c is kept for the job that waits
    reason = read(database, waiting.id).queue_reason
    assert reason == f"waiting for GPU-a (held by {holder.id})"
    assert read(database, last.id).queue_reason == "waiting for 1 GPU; 0 free on gpu-host"


def test_a_device_used_by_another_program_is_waited_for(database: Database) -> None:
    job = queued_job(database, devices=[1])

    assert try_claim(database, gpu_worker("GPU-a", "GPU-b"), frozenset({"GPU-b"})) is None
    assert read(database, job.id).queue_reason == "waiting for GPU-b (in use)"


def test_jobs_that_name_devices_of_other_hosts_hide_none(database: Database) -> None:
    for _ in range(45):
        queued_job(database, devices=["GPU-elsewhere"])
    here = queued_job(database, gpus=1)

    assert claim(database, gpu_worker("GPU-a")).job.id == here.id


def test_a_job_without_a_gpu_count_takes_one_gpu_if_there_is_any(database: Database) -> None:
    queued_job(database, gpus=None)
    queued_job(database, gpus=None)

    assert claim(database, gpu_worker("GPU-a")).gpus == ("GPU-a",)
    assert claim(database, cpu_worker()).devices == ("cpu-host-0",)


def test_a_validation_needs_no_device_and_is_claimed_once(database: Database) -> None:
    job = new_job(database, gpus=8)

    first = try_claim_validation(database, cpu_worker("a"))
    second = try_claim_validation(database, cpu_worker("b"))

    assert first is not None
    assert (first.job.id, first.devices, first.job.status) == (
        job.id,
        (),
        JobStatus.VALIDATING_FILES,
    )
    assert second is None


def test_a_worker_without_its_lease_cannot_change_the_job(database: Database) -> None:
    job = queued_job(database)
    lost = claim(database, cpu_worker("a"))
    with database.write() as session:
        move_job(session, lost.job, JobStatus.QUEUED, "taken over")
        release_stale_devices(session)
    owner = claim(database, cpu_worker("b"))
    report = parse_report(b'{"type": "phase", "phase": "training"}')

    for write in (
        lambda session: renew_lease(session, lost, 60),
        lambda session: record_reports(session, lost, [report], 10),
        lambda session: move_job(session, lost.job, JobStatus.SUCCEEDED, "done"),
        lambda session: check_claim(session, lost),
    ):
        with pytest.raises(LeaseLost), database.write() as session:
            write(session)

    now = read(database, job.id)
    assert (now.owner, now.epoch, now.status) == ("host:b", owner.job.epoch, JobStatus.RUNNING)


def test_renewing_the_lease_returns_a_requested_cancellation(database: Database) -> None:
    queued_job(database)
    held = claim(database, cpu_worker("a"))
    with database.write() as session:
        request_cancel(session, held.job.id)

    with database.write() as session:
        renewed = renew_lease(session, held, 60)

    assert renewed.cancel_requested_at is not None
    assert renewed.status is JobStatus.RUNNING


EVALUATOR = Claimant("host:evaluator", HostDevices("host", (), 2), 60.0)


def evaluate(database: Database, priority: int = 0) -> Job:
    """A queued evaluation."""
    new = NewJob(
        id=new_id("eval"),
        kind="evaluation",
        queue="evaluation",
        validation_queue="evaluation.validation",
        request={},
        gpus=0,
        priority=priority,
    )
    with database.write() as session:
        return move_job(session, create_job(session, new), JobStatus.QUEUED, "valid")


def claim_evaluation(database: Database) -> Claim | None:
    with database.write() as session:
        return claim_work(session, ["evaluation"], EVALUATOR, ())


@pytest.fixture
def workers_of_two_kinds(database: Database) -> None:
    """A trainer and an evaluator share the two CPU slots of a host."""
    with database.write() as session:
        heartbeat(session, "host:trainer", ["training"], EVALUATOR.devices)
        heartbeat(session, EVALUATOR.owner, ["evaluation"], EVALUATOR.devices)
        session.execute(delete(OutboxRow))


@pytest.mark.usefixtures("workers_of_two_kinds")
def test_priority_holds_across_kinds(database: Database) -> None:
    evaluations = [evaluate(database) for _ in range(3)]
    urgent = queued_job(database, priority=50)

    first = claim_evaluation(database)

    assert first is not None
    assert first.job.id == evaluations[0].id  # one slot is left to the urgent job
    assert claim_evaluation(database) is None
    assert claim(database, cpu_worker("trainer", slots=2)).job.id == urgent.id


@pytest.mark.usefixtures("workers_of_two_kinds")
def test_an_earlier_job_of_another_kind_runs_first_and_its_worker_is_woken(
    database: Database,
) -> None:
    queued_job(database)
    claim(database, cpu_worker("busy", slots=2))
    earlier = queued_job(database)
    evaluate(database)
    with database.write() as session:
        session.execute(delete(OutboxRow))

    assert claim_evaluation(database) is None

    with database.read() as session:
        assert session.scalars(select(OutboxRow.queue)).all() == ["training"]
    assert claim(database, cpu_worker("trainer", slots=2)).job.id == earlier.id


def test_jobs_that_no_worker_of_the_host_serves_block_nothing(database: Database) -> None:
    queued_job(database, priority=50)
    evaluation = evaluate(database)

    found = claim_evaluation(database)

    assert found is not None
    assert found.job.id == evaluation.id


@pytest.mark.usefixtures("workers_of_two_kinds")
def test_a_stream_of_short_jobs_does_not_starve_a_job_of_another_kind(database: Database) -> None:
    for _ in range(2):
        evaluate(database)
    running = [claim_evaluation(database) for _ in range(2)]
    long = queued_job(database)
    for short in running:
        assert short is not None
        evaluate(database)
        with database.write() as session:
            move_job(session, short.job, JobStatus.SUCCEEDED, "done")
            release_devices(session, short.job.id, short.job.epoch)

    assert claim_evaluation(database) is not None
    assert claim_evaluation(database) is None  # the other slot is left to the long job
    assert claim(database, cpu_worker("trainer", slots=2)).job.id == long.id
