"""What steps do outside the database, done once: each effect is recorded before it is used.

A step that was interrupted runs again from its beginning, and gets the recorded effects in place
of new ones. An effect is lost only if the process dies between its end and the commit of its
record; jobs and files are not doubled even then, since the gateway knows their idempotency keys,
and an answer of the LLM is in a file before (`services.campaigns.llm.answers`).
"""

import time
from dataclasses import dataclass
from itertools import islice, takewhile
from operator import not_

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from services.contracts.base import JsonObject
from services.contracts.campaigns.llms import LlmRole
from services.contracts.campaigns.loops import ROLE_OF_STEP, StepName
from services.core.db.tables import CampaignEffectRow, JobRow
from services.inference.chat_answers import TokenUsage
from services.jobs.attempts import counted_gpus, run_times
from services.jobs.campaign_records import PROBLEM, REWOUND
from services.jobs.events import storable


@dataclass(frozen=True)
class Place:
    """A step of a campaign."""

    campaign_id: str
    loop: int
    step: StepName


@dataclass(frozen=True)
class Effect:
    """An effect: a JSON response, the job that was created, the tokens that were paid for."""

    response: JsonObject
    job_id: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


def effects_of(session: Session, place: Place) -> dict[str, Effect]:
    """The recorded effects of a step, by key, in order."""
    rows = session.scalars(
        select(CampaignEffectRow)
        .where(
            CampaignEffectRow.campaign_id == place.campaign_id,
            CampaignEffectRow.loop == place.loop,
            CampaignEffectRow.step == place.step.value,
            CampaignEffectRow.key.not_like(f"{REWOUND}%"),
        )
        .order_by(CampaignEffectRow.seq)
    )
    return {
        row.key: Effect(row.response, row.job_id, row.prompt_tokens, row.completion_tokens)
        for row in rows
    }


def record_effect(session: Session, place: Place, key: str, seq: int, effect: Effect) -> None:
    """Record an effect of a step."""
    session.add(
        CampaignEffectRow(
            campaign_id=place.campaign_id,
            loop=place.loop,
            step=place.step.value,
            key=key,
            seq=seq,
            response=storable(effect.response),
            job_id=effect.job_id,
            prompt_tokens=effect.prompt_tokens,
            completion_tokens=effect.completion_tokens,
            created_at=time.time(),
        )
    )


def calls_without_answer(session: Session, campaign_id: str, most: int) -> int:
    """How many of the campaign's last LLM calls, at most ``most``, got no usable answer."""
    calls = session.scalars(
        select(CampaignEffectRow.response)
        .where(
            CampaignEffectRow.campaign_id == campaign_id,
            CampaignEffectRow.step.in_([step.value for step in ROLE_OF_STEP]),
            CampaignEffectRow.job_id.is_(None),
            CampaignEffectRow.key.not_like(f"{REWOUND}%"),
        )
        .order_by(CampaignEffectRow.created_at.desc())
        .limit(2 * most)  # other effects are between them
    )
    answered = (PROBLEM not in response for response in calls if "answer" in response)
    return sum(1 for _ in takewhile(not_, islice(answered, most)))


def tokens_used(session: Session, campaign_id: str) -> dict[LlmRole, TokenUsage]:
    """The LLM tokens of a campaign, by purpose."""
    prompt, completion = CampaignEffectRow.prompt_tokens, CampaignEffectRow.completion_tokens
    query = (
        select(CampaignEffectRow.step, func.sum(prompt), func.sum(completion))
        .where(CampaignEffectRow.campaign_id == campaign_id)
        .group_by(CampaignEffectRow.step)
    )
    return {
        ROLE_OF_STEP[StepName(step)]: TokenUsage(int(of_prompts), int(of_completions))
        for step, of_prompts, of_completions in session.execute(query)
        if StepName(step) in ROLE_OF_STEP
    }


@dataclass(frozen=True)
class JobTime:
    """Total run time of jobs, without pauses and waits, and the same times their GPUs, in
    seconds."""

    seconds: float
    gpu_seconds: float


def time_of_jobs(session: Session, campaign_id: str, place: Place | None = None) -> JobTime:
    """The time of the jobs of a campaign, or of one step, including running jobs. A job that names
    no number of GPUs counts as one."""
    query = (
        select(JobRow.id, JobRow.gpus, JobRow.started_at, JobRow.finished_at)
        .join(CampaignEffectRow, CampaignEffectRow.job_id == JobRow.id)
        .where(CampaignEffectRow.campaign_id == campaign_id)
    )
    if place is not None:
        query = query.where(
            CampaignEffectRow.loop == place.loop,
            CampaignEffectRow.step == place.step.value,
            CampaignEffectRow.key.not_like(f"{REWOUND}%"),
        )
    rows = session.execute(query).all()
    ran = run_times(session, {job: (started, finished) for job, _, started, finished in rows})
    times = [(ran[job], counted_gpus(gpus)) for job, gpus, _, _ in rows]
    return JobTime(sum(each for each, _ in times), sum(each * gpus for each, gpus in times))
