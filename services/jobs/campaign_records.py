"""The records of a campaign that gateway and worker share: its steps, the jobs that it has created,
also those without a record, and what its data scripts have used of LLMs.

A worker that is killed between the creation of a job and its record leaves a job that no effect
names. The gateway keeps the idempotency key of the creation, which tells the step.
"""

import time
from collections.abc import Container, Iterator
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, aliased

from services.contracts.campaigns.loops import StepName
from services.contracts.jobs import JobKind, JobStatus
from services.core.db.tables import CampaignEffectRow, CampaignScriptRow, IdempotencyRow, JobRow
from services.jobs.store import request_cancel

REWOUND = "~"
"""Begins the keys of effects whose step was cleared; they count as used, and nothing else."""
TRAINING = "train"
"""The key of a loop's training, that of its first seed."""
KNOWN = "known"
"""The key of what a proposal was told of: loops by number."""
CACHED = "saved_tokens"
"""In the response of a call that a cached answer has spared: the tokens which that has cost."""
PROBLEM = "problem"
"""In the response of a call that got no usable answer: why."""
REFUSED = "refused"
"""In the response of a call that the endpoint refused."""

_FINAL = [status.value for status in JobStatus if status.is_final]

Step = tuple[int, StepName]


def request_key(campaign_id: str, step: Step, key: str, rewinds: int) -> str:
    """The idempotency key of a request of a step that began after a number of rewinds."""
    loop, name = step
    again = f"/{rewinds}" if rewinds else ""
    return f"campaign/{campaign_id}/{loop}/{name.value}/{key}{again}"


def cancel_orphans(session: Session) -> int:
    """Cancel the unfinished jobs of campaigns that have ended; return their number."""
    campaign = aliased(JobRow)
    unfinished = (
        JobRow.status.not_in(_FINAL),
        JobRow.cancel_requested_at.is_(None),
        campaign.status.in_(_FINAL),
    )
    recorded = session.scalars(
        select(JobRow.id)
        .join(CampaignEffectRow, CampaignEffectRow.job_id == JobRow.id)
        .join(campaign, campaign.id == CampaignEffectRow.campaign_id)
        .where(*unfinished)
    ).all()
    # The label is anyone's to set, so that it proves nothing; it spares the search of all keys.
    labeled = session.execute(
        select(JobRow.id, campaign.id)
        .join(campaign, campaign.id == JobRow.labels["campaign"].as_string())
        .where(*unfinished, campaign.kind == JobKind.CAMPAIGN.value)
    ).all()
    left = {job_id: owner for job_id, owner in labeled if job_id not in recorded}
    created = {job_id for owner in set(left.values()) for job_id, _ in _created_by(session, owner)}
    orphans = [*recorded, *(job_id for job_id in left if job_id in created)]
    for job_id in orphans:
        request_cancel(session, job_id)
    return len(orphans)


def cancel_jobs_of(session: Session, campaign_id: str, steps: Container[Step]) -> int:
    """Cancel the unfinished jobs of these steps; return their number."""
    effects = session.scalars(
        select(CampaignEffectRow).where(
            CampaignEffectRow.campaign_id == campaign_id, CampaignEffectRow.job_id.is_not(None)
        )
    )
    jobs = {
        str(effect.job_id) for effect in effects if (effect.loop, StepName(effect.step)) in steps
    }
    jobs |= {job_id for job_id, step in _created_by(session, campaign_id) if step in steps}
    unfinished = session.scalars(
        select(JobRow.id).where(
            JobRow.id.in_(jobs),
            JobRow.status.not_in(_FINAL),
            JobRow.cancel_requested_at.is_(None),
        )
    ).all()
    for job_id in unfinished:
        request_cancel(session, job_id)
    return len(unfinished)


def _created_by(session: Session, campaign_id: str) -> Iterator[tuple[str, Step]]:
    """What was created under the keys of a campaign's steps: ids, and the steps."""
    begin = f"campaign/{campaign_id}/"
    answers = select(IdempotencyRow.key, IdempotencyRow.response).where(
        IdempotencyRow.key.startswith(begin, autoescape=True)
    )
    for key, response in session.execute(answers):
        try:
            loop, name, *_ = key.removeprefix(begin).split("/")
            step = int(loop), StepName(name)
        except ValueError:
            continue  # the key is another client's
        yield str(response.get("id")), step


@dataclass(frozen=True)
class ScriptUsage:
    """Calls of LLMs with their tokens and cost."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.prompt_tokens + self.completion_tokens


def scripts_usage(session: Session, campaign_id: str) -> ScriptUsage:
    """Total usage of all scripts of a campaign."""
    row = CampaignScriptRow
    query = select(
        func.sum(row.calls),
        func.sum(row.prompt_tokens),
        func.sum(row.completion_tokens),
        func.sum(row.cost),
    ).where(row.campaign_id == campaign_id)
    calls, prompt, completion, cost = session.execute(query).one()
    return ScriptUsage(int(calls or 0), int(prompt or 0), int(completion or 0), cost or 0.0)


def open_script(session: Session, script_id: str, campaign_id: str) -> None:
    """Grant a script access to LLMs, before it starts."""
    if session.get(CampaignScriptRow, script_id) is None:
        session.add(
            CampaignScriptRow(id=script_id, campaign_id=campaign_id, started_at=time.time())
        )


def close_script(session: Session, script_id: str) -> None:
    """Revoke a script's access to LLMs."""
    session.execute(
        update(CampaignScriptRow)
        .where(CampaignScriptRow.id == script_id, CampaignScriptRow.ended_at.is_(None))
        .values(ended_at=time.time())
    )


def count_usage(session: Session, script_id: str, used: ScriptUsage) -> None:
    """Add to what a script has used."""
    row = CampaignScriptRow
    session.execute(
        update(row)
        .where(row.id == script_id)
        .values(
            calls=row.calls + used.calls,
            prompt_tokens=row.prompt_tokens + used.prompt_tokens,
            completion_tokens=row.completion_tokens + used.completion_tokens,
            cost=row.cost + used.cost,
        )
    )


def refuse_script(session: Session, script_id: str, limit: str) -> None:
    """Record the first limit at which a script was refused an answer."""
    session.execute(
        update(CampaignScriptRow)
        .where(CampaignScriptRow.id == script_id, CampaignScriptRow.refusal.is_(None))
        .values(refusal=limit)
    )


def refusal_of(session: Session, script_id: str) -> str | None:
    """The limit at which a script was refused an answer, if it was."""
    row = session.get(CampaignScriptRow, script_id)
    return None if row is None else row.refusal
