"""Collects the report of a campaign from its records."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Integer, cast, func, null, select
from sqlalchemy.orm import Session

from services.api.campaigns.report.commands import Curl
from services.api.campaigns.service import FINAL, campaign_view, loop_view, outputs_of, scored_part
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.llms import LlmRole
from services.contracts.campaigns.loops import ROLE_OF_STEP, CampaignLoop, StepName
from services.contracts.campaigns.reports import (
    CampaignCost,
    CampaignReport,
    FinalComparison,
    ReportedAttempt,
    RoleCost,
    ScriptCost,
)
from services.core.db.tables import CampaignEffectRow, JobRow
from services.jobs.attempts import counted_gpus, run_times
from services.jobs.campaign_records import CACHED, TRAINING, ScriptUsage, scripts_usage
from services.jobs.job import Job
from services.metrics.missing_scores import compare_scores

TEXT_CHARACTERS = 2000
HOUR_SECONDS = 3600.0

Outputs = dict[int, dict[StepName, dict[str, Any]]]


def collect_report(session: Session, job: Job, curl: Curl) -> CampaignReport:
    """The current report of a campaign; ``curl`` builds the commands that reproduce it."""
    request = CreateCampaign.model_validate(job.request)
    outputs = outputs_of(session, job.id)
    jobs = _jobs_of(session, job.id)
    loops = {number: loop_view(number, steps, request) for number, steps in outputs.items()}
    best = max(
        (number for number, loop in loops.items() if loop.accepted),
        key=lambda number: loops[number].judged or 0,
        default=0,
    )
    training = jobs.trainings.get(best)
    return CampaignReport(
        campaign=campaign_view(job),
        attempts=[
            _attempt(loops[number], depth, outputs[number], jobs.trainings.get(number))
            for number, depth in tree_order(list(loops.values()))
        ],
        best_model=loops[best].model if best in loops else None,
        lineage=lineage_of(loops, best),
        final=_final(outputs, best, request),
        cost=_cost(session, job, request, jobs.rows),
        reproduce_model=(
            curl.post("/v1/fine_tuning/jobs", training.request) if training is not None else None
        ),
        reproduce_campaign=curl.post("/v1/campaigns", job.request),
    )


def tree_order(loops: Sequence[CampaignLoop]) -> list[tuple[int, int]]:
    """Loop numbers and depths, every loop before the loops that started from it."""
    known = {loop.loop for loop in loops}
    children: dict[int | None, list[int]] = defaultdict(list)
    for loop in loops:
        parent = loop.parent if loop.parent in known else None
        # An attempt is shown under the base model until its proposal names a parent.
        children[0 if parent is None and loop.loop else parent].append(loop.loop)
    order: list[tuple[int, int]] = []
    left = [(number, 0) for number in reversed(children[None])]
    while left:
        number, depth = left.pop()
        order.append((number, depth))
        left += [(child, depth + 1) for child in reversed(children[number])]
    return order


def lineage_of(loops: dict[int, CampaignLoop], best: int) -> list[int]:
    """The loops from the base model to ``best``."""
    lineage: list[int] = []
    number: int | None = best
    while number is not None and number in loops and number not in lineage:
        lineage.append(number)
        number = loops[number].parent
    return lineage[::-1]


@dataclass
class _Jobs:
    """Jobs of a campaign, and the training of each loop, that of its first seed."""

    rows: list[JobRow] = field(default_factory=list)
    trainings: dict[int, JobRow] = field(default_factory=dict)


def _jobs_of(session: Session, campaign_id: str) -> _Jobs:
    query = (
        select(CampaignEffectRow, JobRow)
        .join(JobRow, JobRow.id == CampaignEffectRow.job_id)
        .where(CampaignEffectRow.campaign_id == campaign_id)
        .order_by(CampaignEffectRow.loop, CampaignEffectRow.seq)
    )
    jobs = _Jobs()
    for effect, row in session.execute(query):
        jobs.rows.append(row)
        if effect.step == StepName.RUNNING and effect.key == TRAINING:
            jobs.trainings[effect.loop] = row
    return jobs


def _attempt(
    loop: CampaignLoop, depth: int, steps: dict[StepName, dict[str, Any]], training: JobRow | None
) -> ReportedAttempt:
    running = steps.get(StepName.RUNNING, {})
    texts = {
        name: _cut(getattr(loop, name)) for name in ("hypothesis", "failure_message", "reason")
    }
    return ReportedAttempt(
        **{**loop.model_dump(), **texts},
        depth=depth,
        task=_cut(steps.get(StepName.PROPOSAL, {}).get("task")) or "",
        code_summary=_cut(steps.get(StepName.FEEDBACK, {}).get("code_summary")) or "",
        rows=running.get("rows"),
        contaminated_rows=running.get("contaminated"),
        training_job=training.id if training is not None else None,
    )


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= TEXT_CHARACTERS:
        return text
    return f"{text[:TEXT_CHARACTERS]} ..."


def _final(outputs: Outputs, best: int, request: CreateCampaign) -> FinalComparison | None:
    base = outputs.get(0, {}).get(StepName.BASE)
    if base is None or best == 0:
        return None
    measured = outputs[best][StepName.RUNNING]["measurement"]
    before, after = (
        scored_part(each, FINAL, request.samples_per_item) for each in (base, measured)
    )
    items = sorted(before.comparable & after.comparable)
    if not items:
        return None
    compared = compare_scores(
        before,
        after,
        items,
        higher_is_better=request.higher_is_better,
        shares=bool(base.get("shares") and measured.get("shares")),
    )
    return FinalComparison(
        samples=len(items),
        left_out=len(base["final"]) + base.get("final_left_out", 0) - len(items),
        base_seeds=len(base.get("seeds", [])) or 1,
        best_seeds=len(measured.get("seeds", [])) or 1,
        base_score=compared.baseline_mean,
        best_score=compared.candidate_mean,
        difference=compared.difference,
        ci95=compared.ci95,
        p_value=compared.p_value,
    )


def _cost(
    session: Session, job: Job, request: CreateCampaign, rows: Sequence[JobRow]
) -> CampaignCost:
    by_role = _by_role(session, job.id, request)
    used = by_role.values()
    scripts = scripts_usage(session, job.id)
    priced = [llm.price is not None for llm in request.llms]
    hours: dict[str, float] = defaultdict(float)
    ran = run_times(session, {row.id: (row.started_at, row.finished_at) for row in rows})
    for row in rows:
        hours[row.kind] += ran[row.id] / HOUR_SECONDS
    return CampaignCost(
        llm_calls=sum(each.calls for each in used) + scripts.calls,
        prompt_tokens=sum(each.prompt_tokens for each in used) + scripts.prompt_tokens,
        completion_tokens=sum(each.completion_tokens for each in used) + scripts.completion_tokens,
        llm_cost=sum(each.cost or 0.0 for each in used) + scripts.cost if all(priced) else None,
        llm_by_role=by_role,
        by_scripts=_by_scripts(request, scripts),
        hours=_hours(job.started_at, job.finished_at),
        jobs=Counter(row.kind for row in rows),
        job_hours=hours,
        gpu_hours=sum(ran[row.id] / HOUR_SECONDS * counted_gpus(row.gpus) for row in rows),
    )


def _by_scripts(request: CreateCampaign, used: ScriptUsage) -> ScriptCost | None:
    llms = request.script_llms
    if llms is None:
        return None
    priced = all(llm.price is not None for llm in llms.by_model.values())
    return ScriptCost(
        calls=used.calls,
        prompt_tokens=used.prompt_tokens,
        completion_tokens=used.completion_tokens,
        cost=used.cost if priced else None,
    )


def _by_role(
    session: Session, campaign_id: str, request: CreateCampaign
) -> dict[LlmRole, RoleCost]:
    prompt, completion = CampaignEffectRow.prompt_tokens, CampaignEffectRow.completion_tokens
    # Every response is read for this, which takes long with many.
    reads = request.answer_cache.read
    saved = CampaignEffectRow.response[CACHED].as_integer() if reads else cast(null(), Integer)
    query = (
        select(
            CampaignEffectRow.step,
            func.count().filter(prompt + completion > 0),
            func.count(saved),
            func.sum(saved),
            func.sum(prompt),
            func.sum(completion),
        )
        .where(CampaignEffectRow.campaign_id == campaign_id)
        .group_by(CampaignEffectRow.step)
    )
    found: dict[LlmRole, RoleCost] = {}
    for step, calls, cached, saved_tokens, of_prompts, of_completions in session.execute(query):
        role = ROLE_OF_STEP.get(StepName(step))
        if role is None or not calls + cached:
            continue
        llm = request.llm_for(role)
        found[role] = RoleCost(
            model=llm.model,
            calls=calls,
            cached_answers=cached,
            saved_tokens=saved_tokens or 0,
            prompt_tokens=of_prompts,
            completion_tokens=of_completions,
            cost=llm.price.of(of_prompts, of_completions) if llm.price else None,
        )
    return found


def _hours(started: float | None, finished: float | None) -> float:
    if started is None:
        return 0.0
    end = time.time() if finished is None else finished
    return max(0.0, end - started) / HOUR_SECONDS
