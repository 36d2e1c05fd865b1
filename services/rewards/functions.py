"""Rewards from a user's function, in a worker process or behind a URL."""

import json
import math
from numbers import Complex, Real
from typing import Any, SupportsFloat

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
    """Read a score, given as a number of any type or as {"score": number}; raises `RewardFailed`,
    which names the ``source``, for anything else."""
    number = value.get("score") if isinstance(value, dict) else value
    score = as_float(number)
    if score is None:
        raise RewardFailed(f"{source} gave {shown(value)}, not a score")
    if not math.isfinite(score):
        raise RewardFailed(f"{source} gave {shown(value)}, not a finite number")
    return score


def as_float(value: object) -> float | None:
    """The float of a real number, also of one from another library, such as NumPy; infinite beyond
    what floats hold. None for anything else: texts, complex numbers, arrays of several."""
    is_real = isinstance(value, Real) or not isinstance(value, Complex | str | bytes)
    if not is_real or not isinstance(value, SupportsFloat):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):  # an array or a tensor that is not one number
        return None


def shown(value: object) -> str:
    """A value as an error shows it: at most 100 characters of its representation."""
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
