"""The job machine under arbitrary interleavings of users, workers, crashes and repairs."""

import functools
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import select, update

from services.contracts.errors import Conflict
from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import Database, now
from services.core.db.migrate import migrate
from services.core.db.tables import EventRow, JobRow, ResourceLeaseRow
from services.jobs.claims import Claim, check_claim, renew_lease
from services.jobs.devices import release_devices, release_stale_devices
from services.jobs.job import LeaseLost
from services.jobs.pause import request_pause, resume_after_outages, resume_job
from services.jobs.reconcile import recover_expired
from services.jobs.store import fail_job, move_job, request_cancel, retry_job
from tests.unit.jobs.machine import (
    gpu_worker,
    new_job,
    read,
    try_claim,
    try_claim_validation,
)

WORKER = gpu_worker("GPU-a", "GPU-b")


@functools.cache
def empty_database() -> bytes:
    """The content of a migrated SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "temper.db"
        database = Database(f"sqlite:///{file}")
        migrate(database)
        database.close()
        return file.read_bytes()


class JobMachine(RuleBasedStateMachine):
    """Two GPUs, any number of jobs, workers that may hold claims that are long lost."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "temper.db"
        file.write_bytes(empty_database())
        self.database = Database(f"sqlite:///{file}")
        self.jobs: list[str] = []
        self.claims: list[Claim] = []
        self.final: dict[str, JobStatus] = {}

    def teardown(self) -> None:
        self.database.close()
        self._folder.cleanup()

    @rule(gpus=st.integers(1, 3))
    def create(self, gpus: int) -> None:
        self.jobs.append(new_job(self.database, gpus=gpus).id)

    @rule()
    def validate(self) -> None:
        claim = try_claim_validation(self.database, WORKER)
        if claim is not None:
            with self.database.write() as session:
                move_job(session, claim.job, JobStatus.QUEUED, "valid")

    @rule()
    def claim(self) -> None:
        claim = try_claim(self.database, WORKER)
        if claim is not None:
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), to=st.sampled_from(["succeed", "fail", "renew", "pause", "outage"]))
    def finish(self, data: st.DataObject, to: str) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        try:
            with self.database.write() as session:
                job = check_claim(session, claim)
                if to == "renew":
                    renew_lease(session, claim, 60)
                    return
                if to == "succeed":
                    move_job(session, job, JobStatus.SUCCEEDED, "done")
                elif to == "pause":
                    move_job(session, job, JobStatus.PAUSED, "paused")
                elif to == "outage":
                    due = now(session) - 1.0
                    move_job(session, job, JobStatus.PAUSED, "an outage", not_before=due)
                else:
                    fail_job(session, job, JobError(code="x", message="y"))
                release_devices(session, job.id, job.epoch)
        except LeaseLost:
            assert read(self.database, claim.job.id).epoch != claim.job.epoch or (
                read(self.database, claim.job.id).owner is None
            )

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.jobs))
        try:
            with self.database.write() as session:
                request_cancel(session, job_id)
        except Conflict:
            assert read(self.database, job_id).status.is_final

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.jobs))
        before = read(self.database, job_id)
        try:
            with self.database.write() as session:
                paused = request_pause(session, job_id)
            assert paused.status is JobStatus.PAUSED or paused.pause_requested_at is not None
        except Conflict:
            asked = before.pause_requested_at or before.cancel_requested_at
            assert before.status.is_final or before.status is JobStatus.PAUSED or asked

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.jobs))
        try:
            with self.database.write() as session:
                assert resume_job(session, job_id).pause_requested_at is None
        except Conflict:
            assert read(self.database, job_id).status is not JobStatus.PAUSED

    @rule()
    def try_again_after_outages(self) -> None:
        with self.database.write() as session:
            resume_after_outages(session)
            assert resume_after_outages(session) == 0

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.jobs))
        try:
            with self.database.write() as session:
                retry_job(session, job_id)
            assert self.final.pop(job_id) is JobStatus.FAILED
        except Conflict:
            assert read(self.database, job_id).status is not JobStatus.FAILED

    @rule()
    def lose_all_workers(self) -> None:
        with self.database.write() as session:
            session.execute(
                update(JobRow).where(JobRow.owner.is_not(None)).values(lease_expires_at=0.0)
            )
            recover_expired(session, 0.0)
            release_stale_devices(session)

    @invariant()
    def devices_belong_to_running_jobs(self) -> None:
        with self.database.read() as session:
            leases = session.execute(
                select(JobRow.status, JobRow.epoch, ResourceLeaseRow.epoch).join(
                    JobRow, JobRow.id == ResourceLeaseRow.job_id
                )
            ).all()
        assert all(status == JobStatus.RUNNING and epoch == held for status, epoch, held in leases)

    @invariant()
    def final_jobs_stay_and_own_nothing(self) -> None:
        for job_id in self.jobs:
            job = read(self.database, job_id)
            assert self.final.get(job_id, job.status) is job.status
            if job.status.is_final:
                self.final[job_id] = job.status
                assert job.owner is None
            assert (job.owner is not None) or job.status is not JobStatus.RUNNING
            if job.status not in {JobStatus.RUNNING, JobStatus.VALIDATING_FILES}:
                assert job.pause_requested_at is None

    @invariant()
    def events_have_no_gaps(self) -> None:
        with self.database.read() as session:
            for job_id in self.jobs:
                query = select(EventRow.number).where(EventRow.job_id == job_id)
                numbers = session.scalars(query.order_by(EventRow.number)).all()
                assert list(numbers) == list(range(1, len(numbers) + 1))


TestJobMachine = JobMachine.TestCase
TestJobMachine.settings = settings(stateful_step_count=30, deadline=None)
