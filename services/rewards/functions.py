"""Rewards from a user's function, in a worker process or behind a URL."""

import json
import math
from typing import Any

from services.contracts.rewards.rewards import CallableReward
from services.core.process.worker_pool import FunctionFailed, FunctionPool
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import ServiceFailed
from services.rewards.interface import RewardFailed, Sample, Score


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
