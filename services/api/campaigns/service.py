"""Requests for campaigns: validation, the job, and the views of a campaign and its loops."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.api.campaigns.datasets import check_size, datasets_of
from services.api.graders.service import check_grader
from services.api.jobs.view import state_fields
from services.api.models.service import check_endpoint, require_loadable
from services.api.settings import ApiSettings
from services.contracts.campaigns.campaigns import Campaign, CampaignResult, CreateCampaign
from services.contracts.campaigns.judging import SeedScores
from services.contracts.campaigns.loops import CampaignLoop, CampaignStep, StepName
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.jobs import JobKind
from services.contracts.models.registered import RemoteModel
from services.core.db.tables import CampaignEffectRow, CampaignStepRow
from services.jobs.campaign_records import REWOUND
from services.jobs.job import NO_DEVICE, Job, NewJob
from services.jobs.store import create_job, get_job
from services.metrics.missing_scores import ScoredItems, mean_score, stored_scores
from services.models.registry import require_file


def create_campaign(session: Session, body: CreateCampaign, settings: ApiSettings) -> Job:
    """Check everything that needs no file content, and queue the campaign.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for an LLM or a grader
    that the operator's settings do not allow.
    """
    require_loadable(session, body.base_model, settings, "base_model")
    require_file(session, body.file, "file")
    for position, campaign in enumerate(body.after):
        _require_campaign(session, campaign, f"after[{position}]")
    body = body.model_copy(update={"datasets": datasets_of(session, body)})
    check_size(session, body.datasets, settings.max_campaign_data_bytes)
    check_endpoint(body.llm, settings.allowed_endpoints, "llm.base_url")
    for role, llm in body.llm_by_role.items():
        param = f"llm_by_role.{role.value}.base_url"
        check_endpoint(llm, settings.allowed_endpoints, param)
    if body.script_llms is not None:
        for llm in body.script_llms.by_model.values():
            check_endpoint(llm, settings.allowed_endpoints, "script_llms")
    if isinstance(body.judge, RemoteModel):
        check_endpoint(body.judge, settings.allowed_endpoints, "judge.base_url")
    check_grader(body.grader, settings)
    return create_job(session, NewJob.of(JobKind.CAMPAIGN, body, NO_DEVICE))


def _require_campaign(session: Session, campaign_id: str, param: str) -> None:
    try:
        get_job(session, campaign_id, JobKind.CAMPAIGN)
    except NotFound:
        raise InvalidRequest(f"{param}: no campaign {campaign_id!r}", param=param) from None


def campaign_view(job: Job) -> Campaign:
    """The wire view of a campaign."""
    request = CreateCampaign.model_validate(job.request)
    return Campaign(
        base_model=request.base_model,
        scenario=request.scenario,
        budget=request.budget,
        branches=request.branches,
        parents=request.parents,
        acceptance=request.acceptance,
        seeds=request.seeds,
        result=CampaignResult.model_validate(job.result) if job.result else None,
        **state_fields(job),
    )


def list_loops(session: Session, job: Job) -> list[CampaignLoop]:
    """All loops of a campaign, the base model's first."""
    request = CreateCampaign.model_validate(job.request)
    return [loop_view(loop, steps, request) for loop, steps in outputs_of(session, job.id).items()]


def outputs_of(session: Session, campaign_id: str) -> dict[int, dict[StepName, dict[str, Any]]]:
    """The outputs of the finished steps of all loops that have started, the base model's first."""
    rows = session.scalars(
        select(CampaignStepRow)
        .where(CampaignStepRow.campaign_id == campaign_id)
        .order_by(CampaignStepRow.loop)
    )
    outputs: dict[int, dict[StepName, dict[str, Any]]] = {}
    for row in rows:
        finished = outputs.setdefault(row.loop, {})
        if row.output is not None:
            finished[StepName(row.name)] = row.output
    return outputs


def best_loop(session: Session, job: Job) -> CampaignLoop:
    """The accepted loop of the best model so far; raises `NotFound` before the base is measured."""
    measured = [each for each in list_loops(session, job) if each.model is not None]
    best = [each for each in measured if each.accepted or each.loop == 0]
    if not best:
        raise NotFound("the base model has not been measured yet", code="not_measured")
    return max(best, key=lambda each: each.judged or 0)


def get_step(session: Session, campaign_id: str, loop: int, name: StepName) -> CampaignStep:
    """A step with its transcript and jobs; raises `NotFound`."""
    row = session.get(CampaignStepRow, (campaign_id, loop, name.value))
    if row is None:
        raise NotFound(f"loop {loop} has no step {name.value} yet", code="step_not_found")
    effects = session.scalars(
        select(CampaignEffectRow)
        .where(
            CampaignEffectRow.campaign_id == campaign_id,
            CampaignEffectRow.loop == loop,
            CampaignEffectRow.step == name.value,
            CampaignEffectRow.key.not_like(f"{REWOUND}%"),
        )
        .order_by(CampaignEffectRow.seq)
    ).all()
    return CampaignStep(
        loop=loop,
        name=name,
        started_at=int(row.started_at),
        finished_at=int(row.finished_at) if row.finished_at is not None else None,
        output=row.output,
        transcript=[_call(effect) for effect in effects if "answer" in effect.response],
        jobs=[effect.job_id for effect in effects if effect.job_id is not None],
    )


def _call(effect: CampaignEffectRow) -> dict[str, Any]:
    tokens = {
        "prompt_tokens": effect.prompt_tokens,
        "completion_tokens": effect.completion_tokens,
    }
    return {**effect.response, **tokens}


SEARCH, FINAL = "search", "final"


def scored_part(measured: dict[str, Any], part: str, samples_per_item: int) -> ScoredItems:
    """The scores of a measurement's part, or of those of one of its seeds; by how many samples of
    an item the request asks for, those of earlier versions are understood."""
    samples = samples_per_item * (len(measured.get("seeds", [])) or 1)
    return ScoredItems(stored_scores(measured[part], samples), measured.get(f"{part}_worst"))


def _means(measured: dict[str, Any], request: CreateCampaign) -> dict[str, float | None]:
    """The mean of each part."""
    return {
        f"{part}_score": mean_score(
            scored_part(measured, part, request.samples_per_item),
            higher_is_better=request.higher_is_better,
        )
        for part in (SEARCH, FINAL)
    }


def loop_view(
    loop: int, steps: dict[StepName, dict[str, Any]], request: CreateCampaign
) -> CampaignLoop:
    """A loop, from the outputs of its finished steps."""
    proposal = steps.get(StepName.PROPOSAL, {})
    feedback = steps.get(StepName.FEEDBACK, {})
    measured = steps.get(StepName.BASE) or (steps.get(StepName.RUNNING) or {}).get("measurement")
    failed = feedback.get("failed") or {}
    order = list(StepName)
    return CampaignLoop(
        loop=loop,
        parent=proposal.get("parent"),
        hypothesis=proposal.get("hypothesis") or None,
        steps=sorted(steps, key=order.index),
        model=measured["model"] if measured else None,
        **(_means(measured, request) if measured else {}),
        search_left_out=(measured or {}).get("search_left_out", 0),
        final_left_out=(measured or {}).get("final_left_out", 0),
        seeds=[
            SeedScores(seed=each["seed"], model=each["model"], **_means(each, request))
            for each in (measured or {}).get("seeds", [])
        ],
        seeds_note=(measured or {}).get("seeds_note"),
        noise_floor=(measured or {}).get("noise_floor"),
        comparison=feedback.get("comparison"),
        accepted=feedback.get("accepted"),
        failure=failed.get("failure"),
        failure_message=failed.get("message"),
        reason=feedback.get("reason") or None,
        judged=(feedback.get("order") or loop) if feedback else None,
    )
