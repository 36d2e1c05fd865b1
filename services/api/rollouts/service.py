"""Rollout requests: validation, the job, and its view."""

import json
from collections.abc import Sequence

from sqlalchemy.orm import Session

from services.api.jobs.view import state_fields
from services.api.models.service import check_endpoint, require_loadable
from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobKind
from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.multi_turn import conversation_warnings
from services.contracts.rollouts.rollouts import (
    MAX_TRAJECTORIES,
    CreateRollout,
    Rollout,
    RolloutStatistics,
)
from services.contracts.rollouts.sources import source_of
from services.contracts.training.online import OnlineSettings
from services.datasets.record import RowError, StrictDecoder
from services.jobs.job import REMOTE_SLOT, Job, NewJob
from services.jobs.store import create_job
from services.models.registry import require_file
from services.rewards.check import check_rewards
from services.rewards.needs import gold_sources, named_reward_models, needs_gold
from services.rollouts.agents.launch import check_agent
from services.rollouts.prompts import inline_prompts
from services.rollouts.settings import validate_multi_turn
from services.rollouts.tools import check_tools


def create_rollout(session: Session, body: CreateRollout, settings: ApiSettings) -> Job:
    """Check everything that needs no file content, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for what the
    operator's settings do not allow.
    """
    _check_models(session, body, settings)
    _check_prompts(session, body)
    check_conversation(body, settings)
    check_scoring(session, body.rewards, settings)
    gpus = body.gpus
    if not isinstance(body.model, str):
        # Reward models run on this host.
        gpus = 0 if named_reward_models(body.rewards) else REMOTE_SLOT
    warnings = conversation_warnings(body.multi_turn, body.tools, body.prompt_type)
    return create_job(session, NewJob.of(JobKind.ROLLOUT, body, gpus, warnings))


def _check_models(session: Session, body: CreateRollout, settings: ApiSettings) -> None:
    if isinstance(body.model, str):
        require_loadable(session, body.model, settings)
    else:
        check_endpoint(body.model, settings.allowed_endpoints)
    if body.tokenizer is not None:
        require_loadable(session, body.tokenizer, settings, "tokenizer")


def _check_prompts(session: Session, body: CreateRollout) -> None:
    if body.file is not None:
        require_file(session, body.file)
    if body.prompts is not None:
        _check_readable(body.prompts)
        prompts = inline_prompts(body.prompts, body.prompt_type, body.system_prompt)
        everywhere, sources = needs_gold(body.rewards), gold_sources(body.rewards)
        needing = (each for each in prompts if everywhere or source_of(each.extra) in sources)
        without_gold = next((each.index for each in needing if not each.gold), None)
        if without_gold is not None:
            field = f"prompts[{without_gold}]"
            message = f"{field}: gold is missing, and a reward needs it"
            raise InvalidRequest(message, param=f"{field}.gold")
        limit = MAX_TRAJECTORIES // len(body.prompts)
        if body.samples_per_prompt > limit:
            raise InvalidRequest(
                f"a job has at most {MAX_TRAJECTORIES:,} rollouts: {len(body.prompts)} prompts can "
                f"have {limit} samples each",
                param="samples_per_prompt",
            )


def _check_readable(rows: Sequence[JsonObject]) -> None:
    """Inline rows are decoded as strictly as the rows of a file."""
    decoder = StrictDecoder()
    for index, row in enumerate(rows):
        try:
            decoder.decode(json.dumps(row))
        except RowError as error:
            field = f"prompts[{index}]"
            raise InvalidRequest(f"{field} {error.message}", param=field) from None


def check_conversation(body: CreateRollout | OnlineSettings, settings: ApiSettings) -> None:
    """Raise `InvalidRequest` for conflicting settings of conversations with tools, and
    `PermissionDenied` for a tool that the operator does not allow."""
    validate_multi_turn(body.multi_turn, body.sampling)
    check_tools(
        body.tools,
        settings.allowed_endpoints,
        settings.allowed_callables,
        settings.mcp_commands,
        gateway_origins=settings.gateway_origins,
    )
    if body.agent is not None:
        check_agent(
            body.agent,
            settings.allowed_endpoints,
            settings.allowed_callables,
            settings.agent_commands,
        )
    if body.tools and not body.multi_turn.multi_turn_enable:
        raise InvalidRequest(
            "tools need several turns: set multi_turn.multi_turn_enable",
            param="multi_turn.multi_turn_enable",
        )


def check_scoring(
    session: Session, rewards: Sequence[WeightedReward], settings: ApiSettings
) -> None:
    """Raise `InvalidRequest` for a reward that cannot be computed, and `PermissionDenied` for one
    that the operator does not allow."""
    check_rewards(
        rewards, settings.allowed_endpoints, settings.allowed_callables, settings.judge_models
    )
    for name in sorted(named_reward_models(rewards)):
        require_loadable(session, name, settings, "rewards")


def rollout_view(job: Job) -> Rollout:
    """The wire view of a rollout job."""
    request = CreateRollout.model_validate(job.request)
    statistics = (job.result or {}).get("statistics")
    return Rollout(
        model=request.model,
        tokenizer=request.tokenizer,
        file=request.file,
        prompt_type=request.prompt_type,
        samples_per_prompt=request.samples_per_prompt,
        tools=request.tools,
        agent=request.agent,
        multi_turn=request.multi_turn,
        sampling=request.sampling,
        rewards=request.rewards,
        seed=request.seed,
        statistics=RolloutStatistics.model_validate(statistics) if statistics else None,
        **state_fields(job),
    )
