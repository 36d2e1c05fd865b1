"""What gives one score."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from services.contracts.errors import TemperError
from services.rewards.sample import Sample


class Trouble(StrEnum):
    """Why there is no score; the names are those of OpenAI's flags, but for their ``_error``."""

    INVALID_VARIABLE = "invalid_variable"
    SAMPLE_PARSE = "sample_parse"
    MODEL_PARSE = "model_grader_parse"
    MODEL_SERVER = "model_grader_server"
    PYTHON_RUNTIME = "python_grader_runtime"
    PYTHON_SERVER = "python_grader_server"
    OTHER = "other"


class RewardFailed(TemperError):
    """A score could not be given; the message says why."""

    code = "reward_failed"

    def __init__(self, message: str, trouble: Trouble = Trouble.OTHER) -> None:
        super().__init__(message)
        self.trouble = trouble


@dataclass(frozen=True)
class Score:
    """A finite number, and what it is made of and has cost.

    ``parts`` are the scores of graders that a formula combines, ``tokens`` counts those of each
    model that was asked.
    """

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)


class Component(Protocol):
    """Judges samples; safe to ask from many tasks at once."""

    async def score(self, sample: Sample) -> Score:
        """Judge one sample; raises `RewardFailed`."""
        ...
