"""Rewards of published training files: a list of names and a list of weights."""

import re
from collections.abc import Callable, Mapping, Sequence

from pydantic import AnyHttpUrl, ValidationError

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.rewards import (
    CallableReward,
    HttpReward,
    RetoolReward,
    Reward,
    SearchEmReward,
    WeightedReward,
)
from services.contracts.validation import first_fault

_VERIFIERS = ("acc_for_dapo", "acc_for_ppo", "base_acc", "math_17k_acc", "math_verify_reward")
"""Accuracy rewards of MindSpeed-RL and verl. They score wrong answers 0 or -1: with advantages
normalized in a group, the two are equivalent."""

_NAMED: Mapping[str, Callable[[], Reward]] = {
    "retool_reward": RetoolReward,
    "retool": RetoolReward,
    "search_em": SearchEmReward,
    **dict.fromkeys(_VERIFIERS, lambda: RetoolReward(plain=True, equivalence="math")),
}
_UNFIT = re.compile(r"[^\w.-]+")


def published_rewards(functions: Sequence[str], weights: Sequence[float]) -> list[WeightedReward]:
    """The rewards behind published names.

    A name is retool_reward, search_em, a published accuracy reward (1 or -1), a
    dotted path of a Python function or a URL. Raises `InvalidRequest` for an unknown one and for
    lists of different lengths.
    """
    if len(functions) != len(weights):
        raise InvalidRequest(
            f"{len(functions)} reward functions have {len(weights)} weights", param="rewards"
        )
    rewards: list[WeightedReward] = []
    for position, (function, weight) in enumerate(zip(functions, weights, strict=True)):
        names = {reward.name for reward in rewards}
        rewards.append(_weighted(function, weight, names, f"rewards[{position}]"))
    return rewards


def _weighted(function: str, weight: float, taken: set[str], param: str) -> WeightedReward:
    reward = _reward(function, param)
    stem = _UNFIT.sub("-", function.rpartition("/")[2]).strip("-")[-60:] or "http"
    name = stem if stem not in taken else f"{stem}-{len(taken) + 1}"
    try:
        return WeightedReward(name=name, weight=weight, reward=reward)
    except ValidationError as error:
        message = first_fault(error).message
        raise InvalidRequest(f"{weight!r} is not a weight: {message}", param=param) from None


def _reward(function: str, param: str) -> Reward:
    if function in _NAMED:
        return _NAMED[function]()
    try:
        if function.startswith(("http://", "https://")):
            return HttpReward(url=AnyHttpUrl(function))
        if "." in function:
            return CallableReward(function=function)
    except ValidationError as error:
        message = first_fault(error).message
        raise InvalidRequest(f"{function[:200]!r}: {message}", param=param) from None
    raise InvalidRequest(
        f"no reward {function[:200]!r}; known are {', '.join(_NAMED)}, dotted paths and URLs",
        param=param,
    )
