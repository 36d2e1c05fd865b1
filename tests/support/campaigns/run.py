"""A campaign in a database, without a gateway, a worker or an LLM."""

import json
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import select

from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import Waiting
from services.campaigns.settings import CampaignSettings
from services.campaigns.turn import release
from services.campaigns.worker import CampaignWork, claim_step
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.loops import StepName
from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.engine import Database, now
from services.core.db.tables import CampaignEffectRow, CampaignStepRow, JobRow
from services.core.process.supervised import lease_clock
from services.jobs.claims import Claim, Claimant
from services.jobs.devices import HostDevices
from services.jobs.events import events_after
from services.jobs.job import NO_DEVICE, NewJob
from services.jobs.queues import CAMPAIGN, TRAINING
from services.jobs.store import create_job, get_job, move_job
from services.jobs.worker.executor import Executor

LEASE_SECONDS = 600.0
NOWHERE = "http://127.0.0.1:9"
"""An address at which nothing listens."""
REQUEST = {
    "base_model": "base",
    "scenario": "Add two numbers.",
    "file": "file-items",
    "datasets": [{"name": "sums", "file": "file-sums"}],
    "llm": {"base_url": f"{NOWHERE}/v1", "model": "scripted"},
}
SEARCH_ITEMS = 10
CAMPAIGN_ID = "campaign-1"


def measured(model: str, right: int) -> dict[str, Any]:
    """The output of a measurement in which the first ``right`` search items are right."""
    scores = {str(item): float(item < right) for item in range(SEARCH_ITEMS)}
    return {"model": model, "search": scores, "final": scores, "wrong": []}


class StoredCampaign:
    """A queued campaign of which `run` takes the next step in this process."""

    id = CAMPAIGN_ID

    def __init__(self, database: Database, home: Path) -> None:
        self.database = database
        self.settings = CampaignSettings(home=home)
        self.stopping = threading.Event()
        files = Artifacts(home).root / "files"
        files.mkdir(parents=True, exist_ok=True)
        rows = [{"prompt": f"What is {n} plus 1?", "gold": str(n + 1)} for n in range(20)]
        (files / "file-items").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (files / "file-sums").write_text('{"question": "What is 7 plus 7?", "answer": "14"}\n')

    def create(self, **request: Any) -> None:
        """Create it, already validated."""
        body = CreateCampaign.model_validate({**REQUEST, **request})
        new = NewJob(
            self.id,
            "campaign",
            CAMPAIGN.work,
            CAMPAIGN.validation,
            body.model_dump(mode="json"),
            gpus=NO_DEVICE,
        )
        with self.database.write() as session:
            job = create_job(session, new)
            move_job(session, job, JobStatus.QUEUED, "The benchmark is valid")

    def step(self, loop: int, name: StepName, output: dict[str, Any]) -> None:
        """Record a finished step."""
        with self.database.write() as session:
            row = CampaignStepRow(
                campaign_id=self.id, loop=loop, name=name.value, started_at=1.0, output=output
            )
            row.finished_at = 2.0
            session.add(row)

    def under_way(self, loop: int, name: StepName) -> None:
        """Record a step that has begun."""
        with self.database.write() as session:
            place = {"campaign_id": self.id, "loop": loop, "name": name.value}
            session.add(CampaignStepRow(**place, started_at=1.0))

    def events(self) -> list[str]:
        """Its messages so far."""
        with self.database.read() as session:
            return [event.message for event in events_after(session, self.id, 0, 1000)]

    def effect(self, loop: int, name: StepName, key: str, **columns: Any) -> None:
        """Record an effect of a step; ``columns`` are those that matter to the test."""
        place = {"campaign_id": self.id, "loop": loop, "step": name.value, "key": key, "seq": 0}
        others = {"response": {}, "prompt_tokens": 0, "completion_tokens": 0, "created_at": 1.0}
        with self.database.write() as session:
            session.add(CampaignEffectRow(**place, **{**others, **columns}))

    def measured_attempt(self, loop: int, right: int) -> None:
        """Record a loop up to its measurement."""
        self.step(loop, StepName.PROPOSAL, {"parent": 0, "hypothesis": "more sums"})
        self.step(loop, StepName.CODING, {"script": "pass", "settings": "a: 1"})
        self.step(loop, StepName.RUNNING, {"rows": 9, "measurement": measured(f"ft:{loop}", right)})

    def finished_script(self, loop: int) -> None:
        """Record that the data of a loop were made and uploaded."""
        self.effect(loop, StepName.RUNNING, "full", response={"problem": None})
        self.effect(loop, StepName.RUNNING, "upload.train", response={"id": "file-train"})
        folder = Artifacts(self.settings.home).job(self.id) / f"loop-{loop}"
        folder.mkdir(parents=True)
        rows = [{"instruction": f"Add {n} to 7.", "output": str(n + 7)} for n in range(30)]
        (folder / "full.json").write_text(json.dumps(rows))

    def training(
        self, loop: int, job_id: str, gpus: int | None = None, started_at: float | None = None
    ) -> None:
        """Record a training that has not ended."""
        new = NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, {}, gpus)
        with self.database.write() as session:
            create_job(session, new)
        response = {"id": job_id}
        self.effect(loop, StepName.RUNNING, "train", response=response, job_id=job_id)
        if started_at is not None:
            self.started(started_at, job_id)

    def started(self, at: float, job_id: str = CAMPAIGN_ID) -> None:
        """Set the time of its first step, or that at which a job of it started."""
        with self.database.write() as session:
            row = session.scalars(select(JobRow).where(JobRow.id == job_id)).one()
            row.started_at = at

    def started_at(self) -> float | None:
        """The time of its first step, from which its hours count."""
        with self.database.read() as session:
            return get_job(session, self.id).started_at

    def claim(self) -> Claim:
        """Claim the next step, as a worker does."""
        host = HostDevices("host", (), 0, ())
        with self.database.write() as session:
            claim = claim_step(session, Claimant("host:1:1", host, LEASE_SECONDS))
        assert claim is not None
        return claim

    def run(self) -> CampaignRun:
        """Claim it, and go on with what is recorded."""
        return self.run_of(self.claim())

    def run_of(self, claim: Claim) -> CampaignRun:
        """Go on with what is recorded."""
        return CampaignRun(
            claim,
            deadline=lease_clock() + LEASE_SECONDS,
            database=self.database,
            settings=self.settings,
            stopping=self.stopping,
        )

    def work(self, queue: str) -> None:
        """Do what a worker does that a message through this queue has woken."""
        work = CampaignWork(self.database, self.settings)
        Executor(self.database, work, self.settings).work(queue)

    def release(self, claim: Claim, waiting: Waiting) -> None:
        """Let go of it until what it waits for has ended."""
        with self.database.write() as session:
            release(session, claim.job, waiting.reason, waiting.jobs)

    def lost(self) -> None:
        """Queue it again, as the reconciler does when the lease of a dead worker has expired."""
        with self.database.write() as session:
            move_job(session, get_job(session, self.id), JobStatus.QUEUED, "Its worker was lost")

    def result(self) -> dict[str, Any]:
        """What it ended with."""
        with self.database.read() as session:
            return get_job(session, self.id).result or {}

    def wakes_after(self) -> float:
        """Seconds until it looks again, whatever it waits for."""
        with self.database.read() as session:
            row = session.scalars(select(JobRow).where(JobRow.id == self.id)).one()
            return (row.not_before or 0.0) - now(session)

    def status_of(self, job_id: str) -> JobStatus:
        """The status of a job."""
        with self.database.read() as session:
            return get_job(session, job_id).status
