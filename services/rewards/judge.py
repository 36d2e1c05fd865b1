"""Rewards from a language model as a judge, and the judge's client."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from services.contracts.base import JsonObject
from services.contracts.rewards.rewards import JudgeReward
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed, model_retries
from services.rewards.graders.template import render
from services.rewards.interface import RewardFailed, RewardFailureKind, Sample, Score
from services.rewards.verdicts import Verdicts

ATTEMPT_SECONDS = 300.0
CONNECTIONS = 64

Value = TypeVar("Value")

_SCORE = re.compile(r"score[^\w.+-]{0,10}([-+]?(?:\d+(?:\.\d+)?|\.\d+))", re.IGNORECASE)
_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n```\s*\Z", re.DOTALL)


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

        Raises `RewardFailed`, also that of ``read``.
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
    """The score in a judge's answer: ``name`` of a JSON object, the number behind the last word
    "score", or a text that is nothing but a number. Raises `RewardFailed` without one, or for
    one outside of the range."""
    score = _number(answer, name)
    if score is None or not low <= score <= high:
        shown = " ".join(answer.split())[-200:]
        raise RewardFailed(
            f"the judge gave no score from {low:g} to {high:g}: {shown!r}",
            RewardFailureKind.MODEL_PARSE,
        )
    return score


def read_label(answer: str, labels: list[str]) -> str:
    """The label in a judge's answer: ``label`` of a JSON object, or the whole text. Raises
    `RewardFailed` for none of them."""
    fields = _fields(answer)
    label = fields.get("label") if fields else answer.strip().strip("\"'`.")
    if label not in labels:
        shown = " ".join(answer.split())[-200:]
        raise RewardFailed(
            f"the judge gave none of the labels: {shown!r}", RewardFailureKind.MODEL_PARSE
        )
    return str(label)


def _number(answer: str, name: str) -> float | None:
    fields = _fields(answer)
    value = fields.get(name, fields.get("score"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else None
    written = _SCORE.findall(answer)
    try:
        number = float(written[-1] if written else answer.strip())
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _fields(answer: str) -> JsonObject:
    fenced = _FENCED.match(answer)
    try:
        value = json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


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
