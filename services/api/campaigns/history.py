"""Forking a campaign from a step, and rewinding it to one."""

from collections.abc import Mapping

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from services.api.campaigns.consequences import Cleared, Course
from services.api.campaigns.service import create_campaign
from services.api.settings import ApiSettings
from services.contracts.campaigns.campaigns import CreateCampaign, ForkCampaign, RewindCampaign
from services.contracts.campaigns.loops import StepName
from services.contracts.errors import Conflict, InvalidRequest
from services.contracts.jobs import JobKind, JobStatus
from services.core.artifacts import Artifacts
from services.core.db.tables import (
    CampaignEffectRow,
    CampaignRow,
    CampaignStepRow,
    CampaignWaitRow,
    JobRow,
)
from services.jobs.campaign_records import KNOWN, REWOUND, Step, cancel_jobs_of
from services.jobs.events import append_event
from services.jobs.job import Job
from services.jobs.queues import add_wake_up
from services.jobs.store import get_job

REWINDABLE = frozenset({JobStatus.QUEUED, JobStatus.PAUSED})


def fork_campaign(session: Session, job_id: str, body: ForkCampaign, settings: ApiSettings) -> Job:
    """Create a campaign that shares another's steps, except one and its dependents.

    Steps that are under way in the other one are the new one's to take, too. The other campaign
    stays as it is. The new one's account begins at zero, and it reads no cached answers, since
    those would be the other one's. Raises `InvalidRequest` for a step that the other one has not
    reached.
    """
    source = get_job(session, job_id, JobKind.CAMPAIGN, lock=True)
    steps = _steps(session, job_id)
    cleared = _following(session, job_id, steps, body)
    kept = {step: row for step, row in steps.items() if step not in cleared and row.output}
    changes = body.model_dump(mode="json", include={"budget", "llm"}, exclude_none=True)
    metadata = source.metadata if body.metadata is None else body.metadata
    request = CreateCampaign.model_validate(
        {**source.request, **changes, "after": [], "metadata": metadata}
    )
    request.answer_cache = request.answer_cache.model_copy(update={"read": False})
    fork = create_campaign(session, request, settings)
    for row in kept.values():
        session.add(
            CampaignStepRow(
                campaign_id=fork.id,
                loop=row.loop,
                name=row.name,
                output=row.output,
                started_at=row.started_at,
                finished_at=row.finished_at,
            )
        )
    for effect in _effects(session, job_id):
        if _step_of(effect) in kept:
            session.add(_unpaid(effect, fork.id))
    session.execute(update(JobRow).where(JobRow.id == fork.id).values(step=len(kept) or None))
    append_event(session, fork.id, f"Forked from {job_id} at {_named(body)}")
    return get_job(session, fork.id)


def rewind_campaign(session: Session, job_id: str, body: RewindCampaign) -> tuple[Job, Cleared]:
    """Clear a step and its dependents, and cancel their unfinished jobs.

    Other steps stay, also those under way, and their jobs go on. What the cleared steps have used
    still counts. Returns the campaign and the cleared steps. Raises `Conflict` for a campaign that
    has ended or takes a step at this moment, and `InvalidRequest` for a step that it has not
    reached.
    """
    job = get_job(session, job_id, JobKind.CAMPAIGN, lock=True)
    if job.status not in REWINDABLE:
        way = "fork it" if job.status.is_final else "pause it first"
        raise Conflict(f"campaign {job_id} is {job.status}; {way}", code="campaign_not_rewindable")
    steps = _steps(session, job_id)
    cleared = _following(session, job_id, steps, body)
    cancelled = cancel_jobs_of(session, job_id, cleared)
    own = session.get(CampaignRow, job_id)
    if own is None:
        own = CampaignRow(id=job_id, rewinds=0)
        session.add(own)
    own.rewinds += 1
    session.execute(delete(CampaignWaitRow).where(CampaignWaitRow.campaign_id == job_id))
    for step, row in steps.items():
        if step in cleared:
            session.delete(row)
    for effect in _effects(session, job_id):
        if _step_of(effect) in cleared:
            effect.key = f"{REWOUND}{own.rewinds}.{effect.key}"
    finished = sum(row.output is not None for step, row in steps.items() if step not in cleared)
    changes = {"step": finished or None, "not_before": None, "queue_reason": None}
    session.execute(update(JobRow).where(JobRow.id == job_id).values(**changes))
    jobs = f"; cancelled {cancelled} jobs" if cancelled else ""
    others = sorted(set(cleared.first) - {body.loop})
    also = f"; cleared what followed in loops {', '.join(map(str, others))}" if others else ""
    append_event(session, job_id, f"Rewound to {_named(body)}{also}{jobs}")
    add_wake_up(session, job.queue)
    return get_job(session, job_id), cleared


def clear_log(artifacts: Artifacts, job_id: str, cleared: Cleared) -> None:
    """Remove the marks of cleared steps from the log folder, so that they are rewritten."""
    for mark in (artifacts.job(job_id) / "log").glob("*/Loop_*/*/output.json"):
        loop, step = mark.parent.parent.name.removeprefix("Loop_"), mark.parent.name
        if (int(loop), StepName(step)) in cleared:
            mark.unlink(missing_ok=True)


def _steps(session: Session, job_id: str) -> dict[Step, CampaignStepRow]:
    where = CampaignStepRow.campaign_id == job_id
    return {_step_of(row): row for row in session.scalars(select(CampaignStepRow).where(where))}


def _effects(session: Session, job_id: str) -> list[CampaignEffectRow]:
    """The effects of steps that were not cleared."""
    query = select(CampaignEffectRow).where(
        CampaignEffectRow.campaign_id == job_id, CampaignEffectRow.key.not_like(f"{REWOUND}%")
    )
    return list(session.scalars(query))


def _step_of(row: CampaignStepRow | CampaignEffectRow) -> Step:
    name = row.name if isinstance(row, CampaignStepRow) else row.step
    return row.loop, StepName(name)


def _following(
    session: Session, job_id: str, steps: Mapping[Step, CampaignStepRow], body: RewindCampaign
) -> Cleared:
    """The step and its dependents; raises `InvalidRequest` for a step that has not started."""
    first = (body.loop, body.step)
    before = steps.get(_step_before(first))
    if first not in steps and (before is None or before.output is None):
        raise InvalidRequest(f"the campaign has not reached {_named(body)}", param="loop")
    told = {
        effect.loop: effect.response
        for effect in _effects(session, job_id)
        if (effect.step, effect.key) == (StepName.PROPOSAL, KNOWN)
    }
    return Course({step: row.output for step, row in steps.items()}, told).following(first)


def _step_before(step: Step) -> Step:
    """The preceding step, in the order of loops."""
    loop, name = step
    names = list(StepName)
    if loop == 0 or name is not StepName.PROPOSAL:
        return loop, names[names.index(name) - 1]
    return (loop - 1, StepName.RECORD) if loop > 1 else (0, StepName.BASE)


def _named(body: RewindCampaign) -> str:
    return f"loop {body.loop}, {body.step.value}"


def _unpaid(effect: CampaignEffectRow, campaign_id: str) -> CampaignEffectRow:
    """A copy for a fork, which neither pays for it nor owns its job."""
    return CampaignEffectRow(
        campaign_id=campaign_id,
        loop=effect.loop,
        step=effect.step,
        key=effect.key,
        seq=effect.seq,
        response=effect.response,
        job_id=None,
        prompt_tokens=0,
        completion_tokens=0,
        created_at=effect.created_at,
    )
