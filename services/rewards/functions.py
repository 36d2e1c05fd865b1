"""Rewards from a user's function, in a worker process or behind a URL, or from an extension."""

import json
import logging
import math
from typing import Any

from services.contracts.rewards.rewards import CallableReward
from services.core.process.worker_pool import FunctionFailed, FunctionPool
from services.inference.causes import cause_of_foreign
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import ServiceFailed
from services.rewards.interface import Component, RewardFailed, RewardFailureKind, Sample, Score

logger = logging.getLogger(__name__)


class FunctionScore:
    """The return value of a Python function."""

    def __init__(self, settings: CallableReward, processes: FunctionPool) -> None:
        self._settings = settings
        self._processes = processes

    async def score(self, sample: Sample) -> Score:
        """Call the function with the trajectory's record and its own arguments."""
        arguments = {**self._settings.arguments, "trajectory": sample.record}
        try:
            value = await self._processes.call(arguments, self._settings.timeout)
        except FunctionFailed as error:
            raise RewardFailed(error.message) from error
        return Score(read_score(value, self._settings.function))


class ServiceScore:
    """The response of a service."""

    def __init__(self, url: str, service: JsonService) -> None:
        self._url = url
        self._service = service

    async def score(self, sample: Sample) -> Score:
        """Post the trajectory's record."""
        try:
            answer = await self._service.post({"trajectory": sample.record}, json.loads)
        except ServiceFailed as error:
            raise RewardFailed(error.message) from error
        return Score(read_score(answer.value, self._url))


class ExtensionScore:
    """The score of an extension's component, whose failures name the extension."""

    def __init__(self, name: str, component: Component) -> None:
        self._source = f"the extension {name!r}"
        self._component = component

    async def score(self, sample: Sample) -> Score:
        """Ask the component; what it raises is a failure like that of a user's function."""
        try:
            score: object = await self._component.score(sample)
        except RewardFailed:
            raise
        except Exception as error:
            logger.warning("%s scored %s", self._source, sample.trajectory.id, exc_info=True)
            message = f"{self._source} raised {type(error).__name__}: {error}"
            raise RewardFailed(message, RewardFailureKind.OTHER, cause_of_foreign(error)) from error
        if not isinstance(score, Score):
            raise RewardFailed(f"{self._source} gave {_shown(score)}, not a Score")
        read_score(score.value, self._source)
        return score


def read_score(value: Any, source: str) -> float:
    """Read a score, given as a number or as {"score": number}."""
    number = value.get("score") if isinstance(value, dict) else value
    if not isinstance(number, int | float):
        raise RewardFailed(f"{source} gave {_shown(value)}, not a score")
    try:
        score = float(number)
    except OverflowError:
        score = math.inf
    if not math.isfinite(score):
        raise RewardFailed(f"{source} gave {_shown(value)}, not a finite number")
    return score


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
