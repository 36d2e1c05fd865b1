"""Rewards from a language model as a judge, and the judge's client."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from services.contracts.base import JsonObject
from services.contracts.rewards.rewards import JudgeReward
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed, model_retries
from services.rewards.answers.judgments import judged_label, judged_number
from services.rewards.graders.template import render
from services.rewards.interface import RewardFailed, RewardFailureKind, Sample, Score
from services.rewards.verdicts import Verdicts

ATTEMPT_SECONDS = 300.0
CONNECTIONS = 64

Value = TypeVar("Value")

CUT_OFF = frozenset({"length", "content_filter"})
"""Reasons why a model's answer ended before its end."""


class JudgeRequest(ChatRequest):
    """A chat completion request with the extra fields of judges."""

    response_format: JsonObject | None = None
    reasoning_effort: str | None = None


class Judge:
    """A language model that grades: one model of the server at ``url``.

    With ``verdicts``, readable answers to requests at temperature 0 are kept there and found again.
    """

    def __init__(
        self, client: InferenceClient, model: str, url: str, verdicts: Verdicts | None = None
    ) -> None:
        self._client = client
        self.model = model
        self._url = url
        self._verdicts = verdicts

    async def ask(
        self, request: JudgeRequest, read: Callable[[str], Value]
    ) -> tuple[Value, Mapping[str, int]]:
        """What ``read`` finds in its answer, and the tokens that it took now.

        Raises `RewardFailed`, also that of ``read``, and for an answer that was cut off: what it
        says so far need not be its verdict.
        """
        verdicts = self._verdicts if request.temperature == 0 else None
        question = request.model_dump(mode="json", exclude_none=True)
        if verdicts is not None and (known := await verdicts.find(self._url, question)) is not None:
            return read(known), {}
        try:
            completion = await self._client.chat(request)
        except ServiceFailed as error:
            raise RewardFailed(error.message, RewardFailureKind.MODEL_SERVER) from error
        answer = completion.content or ""
        if completion.finish_reason in CUT_OFF:
            raise _unreadable(
                f"the judge's answer was cut off ({completion.finish_reason}); it may need more "
                "tokens",
                answer,
            )
        value = read(answer)
        if verdicts is not None:
            await verdicts.keep(self._url, question, answer)
        return value, self._tokens(completion)

    def _tokens(self, completion: ChatCompletion) -> Mapping[str, int]:
        usage = completion.usage
        return {self.model: usage.prompt + usage.completion} if usage else {}


def connect_judge(base_url: str, key: str | None, attempts: int) -> InferenceClient:
    """A client with the retries and timeouts of grading during training."""
    retries = model_retries(attempts=attempts, deadline_seconds=2 * ATTEMPT_SECONDS)
    return InferenceClient(
        base_url, key, ATTEMPT_SECONDS, retries=retries, max_connections=CONNECTIONS
    )


def read_number(answer: str, name: str, low: float, high: float) -> float:
    """The score in a judge's answer, as `judged_number` finds it. Raises `RewardFailed` without
    one, or for one outside of the range."""
    score = judged_number(answer, name, high)
    if score is None or not low <= score <= high:
        raise _unreadable(f"the judge gave no score from {low:g} to {high:g}", answer)
    return score


def read_label(answer: str, labels: list[str]) -> str:
    """The label in a judge's answer, as `judged_label` finds it. Raises `RewardFailed` for none of
    them."""
    label = judged_label(answer, labels)
    if label is None:
        raise _unreadable("the judge gave none of the labels", answer)
    return label


def _unreadable(what: str, answer: str) -> RewardFailed:
    shown = " ".join(answer.split())[-200:]
    return RewardFailed(f"{what}: {shown!r}", RewardFailureKind.MODEL_PARSE)


class JudgeScore:
    """The score in the judge's answer to the rendered prompt."""

    def __init__(self, settings: JudgeReward, judge: Judge) -> None:
        self._settings = settings
        self._judge = judge

    async def score(self, sample: Sample) -> Score:
        """Query the judge."""
        settings = self._settings
        messages = [{"role": "user", "content": render(settings.prompt, sample)}]
        if settings.system_prompt is not None:
            messages.insert(0, {"role": "system", "content": settings.system_prompt})
        low, high = settings.range
        score, tokens = await self._judge.ask(
            JudgeRequest(
                model=self._judge.model,
                messages=messages,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
            ),
            lambda answer: read_number(answer, "score", low, high),
        )
        return Score((score - low) / (high - low) if settings.normalize else score, tokens=tokens)
