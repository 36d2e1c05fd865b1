"""Validates graders, and runs one on a single sample."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from threading import BoundedSemaphore

from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import GatewayTimeout, InvalidRequest, Unavailable
from services.contracts.rewards.grading import (
    GraderErrors,
    GraderMetadata,
    GraderRun,
    GraderValidation,
    RunGrader,
    ValidateGrader,
)
from services.contracts.rewards.openai_graders import OpenAiGrader
from services.contracts.rewards.rewards import Reward
from services.core.operator_environment import OperatorEnvironment
from services.datasets.record import RowError
from services.rewards.check import Permissions, check_reward
from services.rewards.interface import RewardFailed, RewardFailureKind, Sample, Score
from services.rollouts.prompts import prompt_of_row

PARAM = "grader"
RUN_SECONDS = 300.0
MAX_RUNS = 32

_slots = BoundedSemaphore(MAX_RUNS)


def validate_grader(settings: ApiSettings, body: ValidateGrader) -> GraderValidation:
    """Return the grader, or raise what `check_reward` raises. No service is contacted."""
    check_grader(body.grader, settings)
    return GraderValidation(grader=body.grader)


async def run_grader(settings: ApiSettings, body: RunGrader) -> GraderRun:
    """Score the sample; a failure of the grader is part of the response.

    Raises what `check_reward` raises, `Unavailable` at `MAX_RUNS`, and `GatewayTimeout`.
    """
    # The graders' libraries, for those who run one.
    from services.rewards.factory import RewardFactory  # noqa: PLC0415 - loaded with the first grader

    check_grader(body.grader, settings)
    sample = sample_of(body)
    with _slot():
        begun = time.monotonic()
        outcome: Score | RewardFailed
        try:
            async with asyncio.timeout(RUN_SECONDS), AsyncExitStack() as stack:
                # No retries: failures of the grader should be visible.
                environment = OperatorEnvironment.of(settings, attempts=1)
                factory = RewardFactory(environment, stack)
                component = await factory.component(body.grader, PARAM)
                outcome = await component.score(sample)
        except RewardFailed as error:
            outcome = error
        except TimeoutError:
            raise GatewayTimeout(f"the grader took more than {RUN_SECONDS:g} s") from None
        return _response(body.grader, outcome, time.monotonic() - begun)


def check_grader(grader: Reward, settings: ApiSettings, param: str = PARAM) -> None:
    """Raise what `check_reward` raises, for a grader in the field ``param``."""
    permissions = Permissions(
        settings.allowed_endpoints, settings.allowed_callables, settings.judge_models
    )
    check_reward(grader, permissions, param)


@contextmanager
def _slot() -> Iterator[None]:
    if not _slots.acquire(blocking=False):
        raise Unavailable(f"{MAX_RUNS} graders are running")
    try:
        yield
    finally:
        _slots.release()


def _response(grader: Reward, outcome: Score | RewardFailed, seconds: float) -> GraderRun:
    name = getattr(grader, "name", grader.type)
    if isinstance(outcome, RewardFailed):
        score, errors = Score(0.0), _errors(outcome)
    else:
        score, errors = outcome, GraderErrors()
    return GraderRun(
        reward=score.value,
        metadata=GraderMetadata(
            name=name,
            type=grader.type,
            errors=errors,
            execution_time=seconds,
            scores={**score.parts, name: score.value},
            token_usage=sum(score.tokens.values()) if score.tokens else None,
            sampled_model_name=next(iter(score.tokens), None),
        ),
        sub_rewards=dict(score.parts),
        model_grader_token_usage_per_model=dict(score.tokens),
    )


def _errors(failed: RewardFailed) -> GraderErrors:
    flag = f"{failed.kind.value}_error"
    detail = "type" if failed.kind is RewardFailureKind.PYTHON_SERVER else "details"
    return GraderErrors.model_validate({flag: True, f"{flag}_{detail}": failed.message})


_PROMPT_KEYS = ("messages", "prompt", "question")


def sample_of(body: RunGrader) -> Sample:
    """The text as the only turn after the item's prompt, with the item's golds.

    OpenAI's graders take any item. For all others it is a row: raises `InvalidRequest` for
    messages or golds that no row could have.
    """
    row = {} if isinstance(body.grader, OpenAiGrader) else _row_fields(body.item)
    return replace(Sample.of_answer(body.model_sample, **row), item=body.item)


def _row_fields(item: JsonObject) -> JsonObject:
    row = dict(item)
    has_prompt = any(row.get(key) is not None for key in _PROMPT_KEYS)
    if not has_prompt:  # optional for rewards, required for rollouts
        row["prompt"] = "-"
    try:
        prompt = prompt_of_row(row, 0)
    except RowError as error:
        raise InvalidRequest(f"item.{error.message}", param="item") from None
    messages = list(prompt.messages) if has_prompt else []
    return {"messages": messages, "gold": list(prompt.gold), "extra": prompt.extra}
