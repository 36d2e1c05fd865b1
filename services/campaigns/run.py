"""One claim of a campaign: runs its steps, and does what they do outside once."""

import asyncio
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import select, update

from services.campaigns.budget import Budget
from services.campaigns.effects import (
    Effect,
    Place,
    effects_of,
    gpu_seconds_used,
    record_effect,
    tokens_used,
)
from services.campaigns.gateway import Gateway
from services.campaigns.log_folder import LogFolder
from services.campaigns.settings import CampaignSettings
from services.campaigns.signals import Cause, Interrupted, Waiting
from services.contracts.base import JsonObject
from services.contracts.campaigns import ROLE_OF_STEP, CampaignLlm, CreateCampaign, StepName
from services.contracts.errors import NotFound
from services.core.artifacts import Artifacts
from services.core.db.engine import DATABASE_AWAY, Database
from services.core.db.tables import CampaignRow, CampaignStepRow, JobRow
from services.core.jobs.campaign_scripts import scripts_usage
from services.core.jobs.campaign_steps import position, request_key
from services.core.jobs.claims import Claim, check_claim
from services.core.jobs.events import append_event, storable
from services.core.jobs.job import Job
from services.core.jobs.store import get_job
from services.core.worker.run import Lease

POLL_SECONDS = 0.2
CONTROL_SECONDS = 1.0
STEPS_OF_LOOP = len(StepName) - 1

Value = TypeVar("Value")
Output = TypeVar("Output", bound=BaseModel)


class CampaignRun:
    """What a step may do. Every method may raise `Interrupted`, `BudgetSpent` or `LeaseLost`."""

    def __init__(
        self,
        claim: Claim,
        *,
        deadline: float,
        database: Database,
        settings: CampaignSettings,
        stopping: threading.Event,
    ) -> None:
        self.id = claim.job.id
        self.request = CreateCampaign.model_validate(claim.job.request)
        self.settings = settings
        self.database = database
        self.artifacts = Artifacts(settings.home)
        self.gateway = Gateway(settings)
        self._claim = claim
        self._lease = Lease(database, claim, settings.lease_seconds, deadline)
        self._stopping = stopping
        self._checked = 0.0
        with database.read() as session:
            used = tokens_used(session, self.id)
            by_scripts = scripts_usage(session, self.id)
            waiting = session.get(CampaignRow, self.id)
            self._rewinds = 0 if waiting is None else waiting.rewinds
            steps = session.scalars(
                select(CampaignStepRow).where(CampaignStepRow.campaign_id == self.id)
            )
            self._steps = {(row.loop, row.name): row.output for row in steps}
        self.budget = Budget(self.request, claim.job.started_at, used, by_scripts)
        self._place = Place(self.id, 0, StepName.BASE)
        self._effects: dict[str, Effect] = {}
        self.log = LogFolder(
            self.artifacts.job(self.id),
            claim.job.created_at,
            conversations=self.request.log_conversations,
        )
        self._complete_log()

    @property
    def has_begun(self) -> bool:
        """Whether its first step has begun."""
        return bool(self._steps)

    def _complete_log(self) -> None:
        """Write what a worker that was killed may have left out: the last finished step."""
        self.log.begin(self._claim.job.request)
        finished = [
            Place(self.id, loop, StepName(name))
            for (loop, name), output in self._steps.items()
            if output is not None
        ]
        last = max(finished, key=lambda each: position(each.loop, each.step), default=None)
        if last is not None and not self.log.holds(last):
            with self.database.read() as session:
                effects = effects_of(session, last)
            self.log.write_step(last, self._steps[last.loop, last.step.value] or {}, effects)

    @property
    def llm(self) -> CampaignLlm:
        """The LLM of the current step."""
        return self.request.llm_for(ROLE_OF_STEP[self._place.step])

    @property
    def folder(self) -> Path:
        """Where the current loop keeps its files."""
        folder = self.artifacts.job(self.id) / f"loop-{self._place.loop}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def finished(self, loop: int, name: StepName, kind: type[Output]) -> Output:
        """The output of a finished step."""
        return kind.model_validate(self._steps[loop, name.value])

    def step(
        self, loop: int, name: StepName, kind: type[Output], do: Callable[[], Output]
    ) -> Output:
        """The output of a step, which runs unless it has finished before."""
        if self._steps.get((loop, name.value)) is not None:
            return self.finished(loop, name, kind)
        if loop and name is not StepName.RECORD:  # a verdict is always recorded
            self.budget.check_steps(position(loop, name) - 1)
        self._place = Place(self.id, loop, name)
        with self.database.read() as session:
            self._effects = effects_of(session, self._place)
        if (loop, name.value) not in self._steps:
            self._begin()
        output = do()
        self._finish(output)
        return output

    def _begin(self) -> None:
        place = self._place
        with self.database.write() as session:
            check_claim(session, self._claim)
            row = CampaignStepRow(
                campaign_id=self.id, loop=place.loop, name=place.step.value, started_at=time.time()
            )
            session.add(row)
            append_event(session, self.id, f"Loop {place.loop}: {place.step.value}")
        self._steps[place.loop, place.step.value] = None

    def _finish(self, output: BaseModel) -> None:
        place = self._place
        content = storable(output.model_dump(mode="json"))
        with self.database.write() as session:
            job = check_claim(session, self._claim)
            row = session.get_one(CampaignStepRow, (self.id, place.loop, place.step.value))
            row.output, row.finished_at = content, time.time()
            # Progress: losses of workers are counted from here.
            done = (job.step or 0) + 1
            limits = self.request.budget
            total = STEPS_OF_LOOP * limits.loops
            total = 1 + min(total, limits.steps or total)
            progress = update(JobRow).where(JobRow.id == self.id)
            session.execute(progress.values(step=done, total_steps=total))
        self._steps[place.loop, place.step.value] = content
        self.log.write_step(place, content, self._effects)

    def once(
        self, key: str, make: Callable[[], Awaitable[Effect]], *, long: bool = False
    ) -> Effect:
        """The effect of the current step with this key, made unless it is recorded.

        A ``long`` one is cancelled when the hours of the budget end.
        """
        if key in self._effects:
            return self._effects[key]
        self._check(pausing=True)
        self._check_budget()
        effect = self._attend(make, long=long)
        with self.database.write() as session:
            check_claim(session, self._claim)
            record_effect(session, self._place, key, len(self._effects), effect)
        self._effects[key] = effect
        role = ROLE_OF_STEP.get(self._place.step)
        if role is not None:
            self.budget.add(role, effect.prompt_tokens, effect.completion_tokens)
        self.log.write_progress(self._place, self._effects)
        return effect

    def recorded(self, key: str) -> Effect | None:
        """The effect of the current step with this key, if it is recorded."""
        return self._effects.get(key)

    def create_job(self, key: str, path: str, body: JsonObject, seconds: int | None = None) -> str:
        """Create a job once, that fails after ``seconds``; return its id."""
        common = {
            "gpus": self.request.gpus,
            "devices": self.request.devices,
            "deadline_seconds": seconds,
            "priority": self.request.priority,
            "metadata": {"campaign": self.id, "loop": str(self._place.loop)},
        }

        async def make() -> Effect:
            job_id = await self.gateway.create(path, {**common, **body}, self.idempotency_key(key))
            return Effect({"id": job_id}, job_id)

        return str(self.once(key, make).response["id"])

    def idempotency_key(self, key: str) -> str:
        """The key of a request that makes an effect of the current step."""
        place = self._place
        return request_key(self.id, (place.loop, place.step), key, self._rewinds)

    def shared_file(self, *of: str) -> Path:
        """A file of the campaign for what is made of these texts, in whichever loop. After a
        rewind it is another one."""
        name = hashlib.sha256(json.dumps([self._rewinds, *of]).encode()).hexdigest()
        folder = self.artifacts.job(self.id) / "shared"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def finished_job(self, job_id: str) -> Job:
        """The job once it has ended; before, raises `Waiting`, or `BudgetSpent`."""
        with self.database.read() as session:
            job = get_job(session, job_id)
        if not job.status.is_final:
            self._check_budget()
            raise Waiting(f"waiting for {job_id}", job_id)
        return job

    def await_others(self) -> None:
        """Raise `Waiting` while a campaign that this one comes after has not ended."""
        for campaign in self.request.after:
            with contextlib.suppress(NotFound):  # it was deleted, which only ended ones can be
                self.finished_job(campaign)

    def note(self, message: str) -> None:
        """Append an event."""
        with self.database.write() as session:
            check_claim(session, self._claim)
            append_event(session, self.id, message)

    def _check_budget(self) -> None:
        """Raise `BudgetSpent` when the hours, or those of GPUs, have ended."""
        self.budget.check_hours()
        if self.budget.bounds_gpu_hours:
            with self.database.read() as session:
                seconds = gpu_seconds_used(session, self.id)
            self.budget.check_gpu_hours(seconds)

    def _attend(self, make: Callable[[], Awaitable[Value]], *, long: bool) -> Value:
        """Wait for something outside while the lease is kept; interrupted, it is cancelled."""

        async def attended() -> Value:
            work = asyncio.ensure_future(make())
            try:
                while not (await asyncio.wait({work}, timeout=POLL_SECONDS))[0]:
                    self._check()
                    if long:
                        self.budget.check_hours()
                return work.result()
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

        return asyncio.run(attended())

    def _check(self, *, pausing: bool = False) -> None:
        """Keep the lease; raise `Interrupted` for what was asked of the campaign meanwhile.

        A pause waits for the end of an effect (``pausing``).
        """
        if self._stopping.is_set():
            raise Interrupted(Cause.STOPPING)
        try:
            self._lease.renew_if_due()
            if not pausing and time.monotonic() - self._checked < CONTROL_SECONDS:
                return
            self._checked = time.monotonic()
            job, overdue = self._lease.check()
        except DATABASE_AWAY:
            if self._lease.expired:
                raise
            return
        if job.cancel_requested_at is not None:
            raise Interrupted(Cause.CANCELLED)
        if overdue:
            raise Interrupted(Cause.OVERDUE)
        if pausing and job.pause_requested_at is not None:
            raise Interrupted(Cause.PAUSED)
