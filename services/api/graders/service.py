"""Checking a grader, and judging one sample with it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from threading import BoundedSemaphore

from services.api.graders.sample import sample_of
from services.api.settings import ApiSettings
from services.contracts.errors import GatewayTimeout, Unavailable
from services.contracts.grading import (
    GraderErrors,
    GraderMetadata,
    GraderRun,
    GraderValidation,
    RunGrader,
    ValidateGrader,
)
from services.contracts.rewards import Reward
from services.rewards.check import Permissions, check_reward
from services.rewards.component import RewardFailed, Score, Trouble
from services.rewards.environment import RewardEnvironment
from services.rewards.opening import Opening

PARAM = "grader"
RUN_SECONDS = 300.0
RUNS = 32
"""Graders that run at once."""

_places = BoundedSemaphore(RUNS)


def validate_grader(settings: ApiSettings, body: ValidateGrader) -> GraderValidation:
    """Return the grader, or raise what `check_rewards` raises. Nothing is contacted."""
    _check(settings, body.grader)
    return GraderValidation(grader=body.grader)


async def run_grader(settings: ApiSettings, body: RunGrader) -> GraderRun:
    """Judge the sample; what goes wrong while it is judged is part of the answer.

    Raises what `check_rewards` raises, `Unavailable` when too many run, and `GatewayTimeout`.
    """
    _check(settings, body.grader)
    sample = sample_of(body)
    with _place():
        begun = time.monotonic()
        outcome: Score | RewardFailed
        try:
            async with asyncio.timeout(RUN_SECONDS), AsyncExitStack() as stack:
                opening = Opening(_environment(settings), stack)
                component = await opening.component(body.grader, PARAM)
                outcome = await component.score(sample)
        except RewardFailed as error:
            outcome = error
        except TimeoutError:
            raise GatewayTimeout(f"the grader took more than {RUN_SECONDS:g} s") from None
        return _answer(body.grader, outcome, time.monotonic() - begun)


def _check(settings: ApiSettings, grader: Reward) -> None:
    permissions = Permissions(
        settings.allowed_endpoints, settings.allowed_callables, settings.judge_models
    )
    check_reward(grader, permissions, PARAM)


def _environment(settings: ApiSettings) -> RewardEnvironment:
    key = settings.sandbox_api_key
    return RewardEnvironment(
        sandbox_url=settings.sandbox_url,
        sandbox_api_key=key.get_secret_value() if key is not None else None,
        endpoint_keys=settings.endpoint_keys,
        judge_models=settings.judge_models,
        allowed_callables=tuple(settings.allowed_callables),
        callables_folder=settings.callables_folder,
        attempts=1,  # who tries a grader out wants to see what goes wrong
    )


@contextmanager
def _place() -> Iterator[None]:
    if not _places.acquire(blocking=False):
        raise Unavailable(f"{RUNS} graders are running")
    try:
        yield
    finally:
        _places.release()


def _answer(grader: Reward, outcome: Score | RewardFailed, seconds: float) -> GraderRun:
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
    flag = f"{failed.trouble.value}_error"
    told = "type" if failed.trouble is Trouble.PYTHON_SERVER else "details"
    return GraderErrors.model_validate({flag: True, f"{flag}_{told}": failed.message})
