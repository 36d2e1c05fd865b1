"""How asking a model one sample ends."""

from dataclasses import dataclass

from services.evaluator.evaluation.failures import Failure


@dataclass(frozen=True, slots=True)
class Answer:
    """The model answered. ``latency_seconds`` is that of the attempt that succeeded; token counts
    are the endpoint's own, None where it gives none."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int
    latency_seconds: float


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The endpoint gave no answer, after all retries."""

    failure: Failure
    attempts: int
