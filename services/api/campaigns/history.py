"""Forking a campaign from a step, and rewinding it to one."""

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from services.api.campaigns.service import create_campaign
from services.api.settings import ApiSettings
from services.contracts.campaigns import CreateCampaign, ForkCampaign, RewindCampaign, StepName
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
from services.core.jobs.campaign_steps import REWOUND, cancel_jobs_from, position
from services.core.jobs.events import append_event
from services.core.jobs.job import Job
from services.core.jobs.queues import add_wake_up
from services.core.jobs.store import get_job

REWINDABLE = frozenset({JobStatus.QUEUED, JobStatus.PAUSED})


def fork_campaign(session: Session, job_id: str, body: ForkCampaign, settings: ApiSettings) -> Job:
    """Create a campaign that has the steps before one of another, and goes on with that step.

    The other campaign stays as it is. The new one's account begins at zero. Raises `InvalidRequest`
    for a step that the other one has not reached.
    """
    source = get_job(session, job_id, JobKind.CAMPAIGN, lock=True)
    first = position(body.loop, body.step)
    kept = [row for row in _steps(session, job_id) if _position(row) < first]
    _check_reached(kept, body)
    changes = body.model_dump(mode="json", include={"budget", "llm"}, exclude_none=True)
    metadata = source.metadata if body.metadata is None else body.metadata
    request = CreateCampaign.model_validate(
        {**source.request, **changes, "after": [], "metadata": metadata}
    )
    fork = create_campaign(session, request, settings)
    for row in kept:
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
        if _effect_position(effect) < first and not effect.key.startswith(REWOUND):
            session.add(_unpaid(effect, fork.id))
    session.execute(update(JobRow).where(JobRow.id == fork.id).values(step=len(kept) or None))
    append_event(session, fork.id, f"Forked from {job_id} at {_named(body)}")
    return get_job(session, fork.id)


def rewind_campaign(session: Session, job_id: str, body: RewindCampaign) -> Job:
    """Clear a step and all later ones, whose unfinished jobs are cancelled.

    What the cleared steps have used still counts. Raises `Conflict` for a campaign that has ended
    or takes a step at this moment, and `InvalidRequest` for a step that it has not reached.
    """
    job = get_job(session, job_id, JobKind.CAMPAIGN, lock=True)
    if job.status not in REWINDABLE:
        way = "fork it" if job.status.is_final else "pause it first"
        raise Conflict(f"campaign {job_id} is {job.status}; {way}", code="campaign_not_rewindable")
    first = position(body.loop, body.step)
    steps = _steps(session, job_id)
    kept = [row for row in steps if _position(row) < first]
    _check_reached(kept, body)
    cancelled = cancel_jobs_from(session, job_id, first)
    own = session.get(CampaignRow, job_id)
    if own is None:
        own = CampaignRow(id=job_id, rewinds=0)
        session.add(own)
    own.rewinds += 1
    session.execute(delete(CampaignWaitRow).where(CampaignWaitRow.campaign_id == job_id))
    for row in steps:
        if _position(row) >= first:
            session.delete(row)
    for effect in _effects(session, job_id):
        if _effect_position(effect) >= first and not effect.key.startswith(REWOUND):
            effect.key = f"{REWOUND}{own.rewinds}.{effect.key}"
    changes = {"step": len(kept) or None, "not_before": None, "queue_reason": None}
    session.execute(update(JobRow).where(JobRow.id == job_id).values(**changes))
    jobs = f"; cancelled {cancelled} jobs" if cancelled else ""
    append_event(session, job_id, f"Rewound to {_named(body)}{jobs}")
    add_wake_up(session, job.queue)
    return get_job(session, job_id)


def clear_log(artifacts: Artifacts, job_id: str, body: RewindCampaign) -> None:
    """Remove the marks of cleared steps in the log folder, so that they are written again."""
    first = position(body.loop, body.step)
    for mark in (artifacts.job(job_id) / "log").glob("*/Loop_*/*/output.json"):
        loop, step = mark.parent.parent.name.removeprefix("Loop_"), mark.parent.name
        if position(int(loop), StepName(step)) >= first:
            mark.unlink(missing_ok=True)


def _steps(session: Session, job_id: str) -> list[CampaignStepRow]:
    where = CampaignStepRow.campaign_id == job_id
    return list(session.scalars(select(CampaignStepRow).where(where)))


def _effects(session: Session, job_id: str) -> list[CampaignEffectRow]:
    where = CampaignEffectRow.campaign_id == job_id
    return list(session.scalars(select(CampaignEffectRow).where(where)))


def _position(row: CampaignStepRow) -> int:
    return position(row.loop, StepName(row.name))


def _effect_position(row: CampaignEffectRow) -> int:
    return position(row.loop, StepName(row.step))


def _check_reached(before: list[CampaignStepRow], body: RewindCampaign) -> None:
    """Raise `InvalidRequest` unless all steps before this one have finished."""
    finished = sum(row.output is not None for row in before)
    if finished < position(body.loop, body.step):
        raise InvalidRequest(f"the campaign has not reached {_named(body)}", param="loop")


def _named(body: RewindCampaign) -> str:
    return f"loop {body.loop}, {body.step.value}"


def _unpaid(effect: CampaignEffectRow, campaign_id: str) -> CampaignEffectRow:
    """A copy for a fork, which did not pay for it and does not own its job."""
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
