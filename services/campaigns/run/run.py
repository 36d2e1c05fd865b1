"""One claim of a campaign: runs its steps, and performs their external effects exactly once."""

import contextlib
import copy
import hashlib
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel
from sqlalchemy import select, update

from services.campaigns.gateway import Gateway
from services.campaigns.llm.answers import SharedAnswers
from services.campaigns.log_folder import LogFolder
from services.campaigns.run.budget import HOUR_SECONDS, Budget
from services.campaigns.run.effects import (
    Effect,
    JobTime,
    Place,
    calls_without_answer,
    effects_of,
    record_effect,
    time_of_jobs,
    tokens_used,
)
from services.campaigns.run.signals import Control, Waiting
from services.campaigns.run.steps import Output, Steps
from services.campaigns.settings import CampaignSettings
from services.contracts.base import JsonObject
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.llms import CampaignLlm
from services.contracts.campaigns.loops import ROLE_OF_STEP, StepName
from services.contracts.errors import Conflict, NotFound
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import CampaignRow, CampaignStepRow, JobRow
from services.jobs.attempts import run_times
from services.jobs.campaign_records import request_key, scripts_usage
from services.jobs.claims import Claim, check_claim
from services.jobs.events import append_event, storable
from services.jobs.job import Job
from services.jobs.store import get_job, request_cancel
from services.jobs.worker.run import Lease

STEPS_OF_LOOP = len(StepName) - 1


class CampaignRun:
    """Operations of a step. Any method may raise `Interrupted`, `BudgetSpent` or `LeaseLost`."""

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
        self.shared_answers = SharedAnswers(
            self.request.answer_cache, settings, self.artifacts.job(self.id) / "asked"
        )
        self._claim = claim
        lease = Lease(database, claim, settings.lease_seconds, deadline)
        self.control = Control(lease, stopping)
        self._calls = threading.Lock()
        with database.read() as session:
            used = tokens_used(session, self.id)
            by_scripts = scripts_usage(session, self.id)
            own = session.get(CampaignRow, self.id)
            self._rewinds = 0 if own is None else own.rewinds
            rows = session.scalars(
                select(CampaignStepRow).where(CampaignStepRow.campaign_id == self.id)
            )
            steps = sorted(rows, key=lambda row: row.finished_at or 0.0)
        self._rewinds_of = {(row.loop, row.name): row.rewinds for row in steps}
        self.steps = Steps(self.request, {(row.loop, row.name): row.output for row in steps})
        self.budget = Budget(self.request, claim.job.started_at, used, by_scripts)
        self._place = Place(self.id, 0, StepName.BASE)
        self._effects: dict[str, Effect] = {}
        self.log = LogFolder(
            self.artifacts.job(self.id),
            claim.job.created_at,
            conversations=self.request.log_conversations,
        )
        self._complete_log(steps)

    def branch(self) -> "CampaignRun":
        """The same run for another thread, which is at another step."""
        return copy.copy(self)

    @property
    def has_begun(self) -> bool:
        """Whether its first step has started."""
        return self.steps.has_begun(0, StepName.BASE)

    def _complete_log(self, steps: Sequence[CampaignStepRow]) -> None:
        """Write log entries that a killed worker may have missed."""
        self.log.begin(self._claim.job.request)
        for row in steps[-self.request.branches :]:  # each loop under way may lack one
            place = Place(self.id, row.loop, StepName(row.name))
            if row.output is not None and not self.log.holds(place):
                with self.database.read() as session:
                    effects = effects_of(session, place)
                self.log.write_step(place, row.output, effects)

    @property
    def llm(self) -> CampaignLlm:
        """The LLM for the current step."""
        return self.request.llm_for(ROLE_OF_STEP[self._place.step])

    @property
    def loop(self) -> int:
        """The loop of the current step."""
        return self._place.loop

    @property
    def folder(self) -> Path:
        """The folder of the current loop."""
        folder = self.artifacts.job(self.id) / f"loop-{self._place.loop}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def finished(self, loop: int, name: StepName, kind: type[Output]) -> Output:
        """The output of a finished step."""
        return self.steps.output(loop, name, kind)

    def step(
        self, loop: int, name: StepName, kind: type[Output], do: Callable[[], Output]
    ) -> Output:
        """Return the output of a step, running it unless it has finished before.

        Raises `OutOfTurn` for one that may not start yet.
        """
        if self.steps.is_finished(loop, name):
            return self.finished(loop, name, kind)
        self._place = Place(self.id, loop, name)
        with self.steps.lock:
            if not self.steps.has_begun(loop, name):
                self._begin()
        with self.database.read() as session:
            self._effects = effects_of(session, self._place)
        output = do()
        self._finish(output)
        return output

    def _begin(self) -> None:
        place = self._place
        if place.loop and place.step is not StepName.RECORD:  # a verdict is always recorded
            self.budget.check_steps(self.steps.begun)
        self.steps.check_turn(place.step)
        with self.database.write() as session:
            check_claim(session, self._claim)
            row = CampaignStepRow(
                campaign_id=self.id,
                loop=place.loop,
                name=place.step.value,
                started_at=time.time(),
                rewinds=self._rewinds,
            )
            session.add(row)
            append_event(session, self.id, f"Loop {place.loop}: {place.step.value}")
        self._rewinds_of[place.loop, place.step.value] = self._rewinds
        self.steps.begin(place.loop, place.step)

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
        self.steps.finish(place.loop, place.step, content)
        self.log.write_step(place, content, self._effects)

    def once(
        self, key: str, make: Callable[[], Awaitable[Effect]], *, long: bool = False
    ) -> Effect:
        """Return the effect of the current step with this key, performing it unless it is recorded.

        A ``long`` one is cancelled when the time budget ends.
        """
        if key in self._effects:
            return self._effects[key]
        self.control.check(pausing=True)
        self._check_budget()
        effect = self.control.wait_with_lease(make, self.budget.check_hours if long else None)
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
        """The recorded effect of the current step with this key, if any."""
        return self._effects.get(key)

    def pay_once(self, key: str, make: Callable[[], Awaitable[Effect]]) -> Effect:
        """Like `once`, for an LLM call. Where the budget limits tokens or cost, only one loop
        calls at a time, so that a single call can exceed the limit."""
        if key in self._effects or not self.budget.bounds_llm:
            return self.once(key, make, long=True)
        self.control.acquire(self._calls)
        try:
            return self.once(key, make, long=True)
        finally:
            self._calls.release()

    def calls_without_answer(self, most: int) -> int:
        """How many of the last LLM calls, at most ``most``, got no usable answer."""
        with self.database.read() as session:
            return calls_without_answer(session, self.id, most)

    def create_job(
        self,
        key: str,
        path: str,
        body: JsonObject,
        seconds: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Create a job once, with a time limit of ``seconds``; return its id."""
        labels = {"campaign": self.id, "loop": str(self._place.loop), **(labels or {})}
        common = {
            "gpus": self.request.gpus,
            "devices": self.request.devices,
            "deadline_seconds": seconds,
            "priority": self.request.priority,
            "metadata": labels,
        }

        async def make() -> Effect:
            job_id = await self.gateway.create(path, {**common, **body}, self.idempotency_key(key))
            return Effect({"id": job_id}, job_id)

        return str(self.once(key, make).response["id"])

    def idempotency_key(self, key: str) -> str:
        """The idempotency key of a request of the current step. A rewind does not change the keys
        of steps that it keeps."""
        place = self._place
        rewinds = self._rewinds_of[place.loop, place.step.value]
        return request_key(self.id, (place.loop, place.step), key, rewinds)

    def shared_file(self, *of: str) -> Path:
        """The campaign's file for what is derived from these texts, in any loop. A rewind changes
        it."""
        name = hashlib.sha256(json.dumps([self._rewinds, *of]).encode()).hexdigest()
        folder = self.artifacts.job(self.id) / "shared"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def finished_job(self, job_id: str, *, run_seconds: float | None = None) -> Job:
        """The job once it has ended; until then, raises `Waiting` or `BudgetSpent`.

        One that has run for ``run_seconds`` is cancelled.
        """
        with self.database.read() as session:
            job = get_job(session, job_id)
        if not job.status.is_final:
            self._check_budget()
            if run_seconds is not None and self.seconds_of(job) >= run_seconds:
                self._cancel(job_id)
            raise Waiting(f"waiting for {job_id}", job_id)
        return job

    def seconds_of(self, job: Job) -> float:
        """How long a job has run, without pauses and waits."""
        with self.database.read() as session:
            return run_times(session, {job.id: (job.started_at, job.finished_at)})[job.id]

    def time_of_jobs(self) -> JobTime:
        """The run time of the jobs that the current step has created."""
        with self.database.read() as session:
            return time_of_jobs(session, self.id, self._place)

    def gpu_seconds_left(self) -> float | None:
        """Remaining GPU hours; None without a limit."""
        limit = self.request.budget.gpu_hours
        if limit is None:
            return None
        with self.database.read() as session:
            used = time_of_jobs(session, self.id).gpu_seconds
        return limit * HOUR_SECONDS - used

    def _cancel(self, job_id: str) -> None:
        with self.database.write() as session:
            check_claim(session, self._claim)
            with contextlib.suppress(Conflict):  # it has just ended
                request_cancel(session, job_id)

    def await_others(self) -> None:
        """Raise `Waiting` until the campaign that this one is queued behind has ended."""
        for campaign in self.request.after:
            with contextlib.suppress(NotFound):  # it was deleted, which only ended ones can be
                self.finished_job(campaign)

    def has_ended(self, job_id: str) -> bool:
        """Whether a job has ended or was deleted."""
        with self.database.read() as session:
            try:
                return get_job(session, job_id).status.is_final
            except NotFound:
                return True

    def note(self, message: str) -> None:
        """Append an event."""
        with self.database.write() as session:
            check_claim(session, self._claim)
            append_event(session, self.id, message)

    def _check_budget(self) -> None:
        """Raise `BudgetSpent` when the time or GPU-hour budget is exhausted."""
        self.budget.check_hours()
        if self.budget.bounds_gpu_hours:
            with self.database.read() as session:
                seconds = time_of_jobs(session, self.id).gpu_seconds
            self.budget.check_gpu_hours(seconds)
