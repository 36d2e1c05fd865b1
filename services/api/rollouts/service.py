"""Checking a request for rollouts and turning it into a job."""

import json
from collections.abc import Sequence

from sqlalchemy.orm import Session

from services.api.files.service import get_file_row
from services.api.models.endpoints import check_endpoint
from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.jobs import JobKind
from services.contracts.rollouts import MAX_TRAJECTORIES, CreateRollout
from services.core.ids import new_id
from services.core.jobs.job import Job, NewJob
from services.core.jobs.queues import ROLLOUT
from services.core.jobs.store import create_job
from services.core.models.registry import get_model_row
from services.datasets.decoding import StrictDecoder
from services.datasets.record import RowError
from services.rewards import check_rewards, named_reward_models, needs_gold
from services.rollouts.loop import validate_multi_turn
from services.rollouts.prompts import inline_prompts
from services.rollouts.tools import check_tools


def create_rollout(session: Session, body: CreateRollout, settings: ApiSettings) -> Job:
    """Check what can be checked without reading the file, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for what the
    operator's settings do not allow to be called.
    """
    _check_models(session, body, settings)
    _check_prompts(session, body)
    _check_conversation(body, settings)
    check_rewards(
        body.rewards, settings.allowed_endpoints, settings.allowed_callables, settings.judge_models
    )
    return create_job(
        session,
        NewJob(
            id=new_id("rollout"),
            kind=JobKind.ROLLOUT,
            queue=ROLLOUT.work,
            validation_queue=ROLLOUT.validation,
            request=body.model_dump(mode="json"),
            # A remote model needs no device of ours.
            gpus=body.gpus if isinstance(body.model, str) else 0,
            priority=body.priority,
            metadata=body.metadata,
        ),
    )


def _check_models(session: Session, body: CreateRollout, settings: ApiSettings) -> None:
    if isinstance(body.model, str):
        _check_registered(session, body.model, "model")
    else:
        check_endpoint(body.model, settings.allowed_endpoints)
    if body.tokenizer is not None:
        _check_registered(session, body.tokenizer, "tokenizer")
    for name in sorted(named_reward_models(body.rewards)):
        _check_registered(session, name, "rewards")


def _check_registered(session: Session, name: str, param: str) -> None:
    try:
        get_model_row(session, name)
    except NotFound as error:
        raise InvalidRequest(error.message, param=param, code=error.code) from None


def _check_prompts(session: Session, body: CreateRollout) -> None:
    if body.file is not None:
        try:
            get_file_row(session, body.file)
        except NotFound as error:
            raise InvalidRequest(error.message, param="file", code=error.code) from None
    if body.prompts is not None:
        _check_readable(body.prompts)
        prompts = inline_prompts(body.prompts, body.prompt_type, body.system_prompt)
        bare = next((prompt.index for prompt in prompts if not prompt.gold), None)
        if bare is not None and needs_gold(body.rewards):
            place = f"prompts[{bare}]"
            message = f"{place}: gold is missing, and a reward compares with it"
            raise InvalidRequest(message, param=f"{place}.gold")
        most = MAX_TRAJECTORIES // len(body.prompts)
        if body.samples_per_prompt > most:
            raise InvalidRequest(
                f"a job has {MAX_TRAJECTORIES:,} rollouts at most, so that {len(body.prompts)} "
                f"prompts can have {most} samples each",
                param="samples_per_prompt",
            )


def _check_readable(rows: Sequence[JsonObject]) -> None:
    """The job reads its rows from a file, more strictly than bodies of requests are read."""
    decoder = StrictDecoder()
    for index, row in enumerate(rows):
        try:
            decoder.decode(json.dumps(row))
        except RowError as error:
            place = f"prompts[{index}]"
            raise InvalidRequest(f"{place} {error.message}", param=place) from None


def _check_conversation(body: CreateRollout, settings: ApiSettings) -> None:
    validate_multi_turn(body.multi_turn, body.sampling)
    check_tools(body.tools, settings.allowed_endpoints, settings.allowed_callables)
    if body.tools and not body.multi_turn.multi_turn_enable:
        raise InvalidRequest(
            "tools are called in several turns only: set multi_turn.multi_turn_enable",
            param="multi_turn.multi_turn_enable",
        )
