"""Validates rewards and graders before a job is created."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import assert_never

from pydantic import AnyHttpUrl

from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.origins import origin_of
from services.contracts.rewards.graders import GoldGrader, MathGrader, TokenF1Grader
from services.contracts.rewards.openai_graders import (
    JudgeModel,
    LabelModelGrader,
    MultiGrader,
    PythonGrader,
    ScoreModelGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from services.contracts.rewards.rewards import (
    AgentReward,
    CallableReward,
    CodeTestsReward,
    EnvironmentReward,
    HttpReward,
    JudgeReward,
    PairwiseJudgeReward,
    RetoolReward,
    Reward,
    RewardModelReward,
    SearchEmReward,
    WeightedReward,
)
from services.core.process.worker_pool import check_function_allowed
from services.rewards.families import FamilyReward, family_and_settings
from services.rewards.graders.gold import matcher
from services.rewards.graders.model_graders import texts_of
from services.rewards.graders.multi import Formula, FormulaError
from services.rewards.graders.python_grader import check_source
from services.rewards.graders.template import check_template

RECORD = "trajectory"
"""The argument of user functions that holds the trajectory."""


@dataclass(frozen=True)
class Permissions:
    """What the operator allows: origins of URLs, Python functions, and names of judges."""

    origins: Collection[str]
    callables: Collection[str]
    judges: Collection[str]


def check_rewards(
    rewards: Sequence[WeightedReward],
    allowed_origins: Collection[str],
    allowed_callables: Collection[str],
    judge_models: Collection[str] = (),
    *,
    param: str = "rewards",
) -> None:
    """Raise `InvalidRequest` for a reward that could never be given, and `PermissionDenied` for
    one that the operator's settings do not allow; the field at fault is named like
    ``rewards[1].reward.url``, below ``param``. Nothing is contacted.
    """
    permissions = Permissions(allowed_origins, allowed_callables, judge_models)
    names: set[str] = set()
    for position, component in enumerate(rewards):
        place = f"{param}[{position}]"
        if component.name in names:
            message = f"{component.name!r} is the name of an earlier reward"
            raise InvalidRequest(message, param=f"{place}.name")
        names.add(component.name)
        check_reward(component.reward, permissions, f"{place}.reward")
    if rewards and not any(component.weight for component in rewards):
        raise InvalidRequest("at least one weight must not be 0", param=param)


def check_reward(reward: Reward, permissions: Permissions, param: str) -> None:
    """Check one reward, the field ``param``; raises what `check_rewards` raises."""
    match reward:
        case (
            SearchEmReward()
            | RetoolReward()
            | AgentReward()
            | EnvironmentReward()
            | RewardModelReward()
            | CodeTestsReward()
            | MathGrader()
            | TokenF1Grader()
        ):
            return
        case _ if isinstance(reward, GoldGrader):
            matcher(reward, param)
        case HttpReward():
            _check_url(reward.url, permissions, f"{param}.url")
        case CallableReward():
            _check_callable(reward, permissions, param)
        case PairwiseJudgeReward():
            _check_judge(reward.model, permissions, f"{param}.model")
        case JudgeReward():
            _check_judge(reward.model, permissions, f"{param}.model")
            check_template(reward.prompt, f"{param}.prompt")
        case StringCheckGrader() | TextSimilarityGrader():
            check_template(reward.input, f"{param}.input")
            check_template(reward.reference, f"{param}.reference")
        case ScoreModelGrader() | LabelModelGrader():
            _check_model_grader(reward, permissions, param)
        case PythonGrader():
            check_source(reward.source, f"{param}.source")
        case MultiGrader():
            _check_multi(reward, permissions, param)
        case _ if isinstance(reward, FamilyReward):
            family_and_settings(reward, param)
        case _:
            assert_never(reward)


def check_judge_name(name: str, known: Collection[str], param: str) -> None:
    """Raise `InvalidRequest` for a judge that the operator has not configured."""
    if name not in known:
        raise InvalidRequest(
            f"no judge {name!r}; the operator names judges in TEMPER_JUDGE_MODELS, and one can "
            "be given as {base_url, model}",
            param=param,
            code="model_not_found",
        )


def _check_callable(reward: CallableReward, permissions: Permissions, param: str) -> None:
    check_function_allowed(reward.function, permissions.callables, f"{param}.function")
    if RECORD in reward.arguments:
        message = f"{RECORD} is reserved for the trajectory"
        raise InvalidRequest(message, param=f"{param}.arguments")


def _check_multi(reward: MultiGrader, permissions: Permissions, param: str) -> None:
    place = f"{param}.calculate_output"
    try:
        formula = Formula.parse(reward.calculate_output)
    except FormulaError as error:
        error.param = place
        raise
    unknown = sorted(formula.names - reward.by_variable.keys())
    if unknown:
        message = f"{unknown[0]!r} is not among graders: {', '.join(reward.by_variable)}"
        raise InvalidRequest(message, param=place, code="invalid_variable")
    for name, grader in reward.by_variable.items():
        check_reward(grader, permissions, f"{param}.graders.{name}")


def _check_model_grader(
    reward: ScoreModelGrader | LabelModelGrader, permissions: Permissions, param: str
) -> None:
    _check_judge(reward.model, permissions, f"{param}.model")
    for position, message in enumerate(reward.input):
        for text in texts_of(message):
            check_template(text, f"{param}.input[{position}].content")


def _check_judge(model: JudgeModel, permissions: Permissions, param: str) -> None:
    if isinstance(model, str):
        check_judge_name(model, permissions.judges, param)
    else:
        _check_url(model.base_url, permissions, f"{param}.base_url")


def _check_url(url: AnyHttpUrl, permissions: Permissions, param: str) -> None:
    if url.username or url.password or url.fragment:
        message = "must be a plain URL: its key is set by the operator"
        raise InvalidRequest(message, param=param)
    if origin_of(url) not in permissions.origins:
        raise PermissionDenied(
            f"{origin_of(url)} is not among the operator's TEMPER_ALLOWED_ENDPOINTS", param=param
        )
