"""OpenAI's graders that ask a language model for a score or a label."""

import json

from services.contracts.base import JsonObject
from services.contracts.rewards.openai_graders import (
    GraderMessage,
    LabelModelGrader,
    SamplingParams,
    ScoreModelGrader,
    TextPart,
)
from services.inference.seeds import SEEDS, derived_seed
from services.rewards.graders.template import render
from services.rewards.interface import Sample, Score
from services.rewards.judge import Judge, JudgeRequest, read_label, read_number


class ScoreModel:
    """A number within a range."""

    def __init__(self, settings: ScoreModelGrader, judge: Judge) -> None:
        self._settings = settings
        self._judge = judge

    async def score(self, sample: Sample) -> Score:
        """Ask the model for {"steps": ..., "result": number}."""
        low, high = self._settings.range
        wanted = (
            f"Give the grade as a JSON object whose field result is a number from {low:g} to "
            f"{high:g}."
        )
        schema = {
            "type": "object",
            "properties": {
                "steps": {"type": "array", "items": {"type": "string"}},
                "result": {"type": "number", "minimum": low, "maximum": high},
            },
            "required": ["steps", "result"],
            "additionalProperties": False,
        }
        request = _request(self._judge, self._settings, sample, wanted, schema)
        score, tokens = await self._judge.ask(
            request, lambda answer: read_number(answer, "result", low, high)
        )
        return Score(score, tokens=tokens)


class LabelModel:
    """1 for a passing label, else 0."""

    def __init__(self, settings: LabelModelGrader, judge: Judge) -> None:
        self._settings = settings
        self._judge = judge

    async def score(self, sample: Sample) -> Score:
        """Ask the model for {"label": text}."""
        labels = self._settings.labels
        wanted = f"Answer with a JSON object whose field label is one of: {', '.join(labels)}."
        schema = {
            "type": "object",
            "properties": {"label": {"type": "string", "enum": labels}},
            "required": ["label"],
            "additionalProperties": False,
        }
        request = _request(self._judge, self._settings, sample, wanted, schema)
        label, tokens = await self._judge.ask(request, lambda answer: read_label(answer, labels))
        return Score(float(label in self._settings.passing_labels), tokens=tokens)


def texts_of(message: GraderMessage) -> list[str]:
    """The templates of a message."""
    content = message.content if isinstance(message.content, list) else [message.content]
    return [part.text if isinstance(part, TextPart) else part for part in content]


def _request(
    judge: Judge,
    settings: ScoreModelGrader | LabelModelGrader,
    sample: Sample,
    wanted: str,
    schema: JsonObject,
) -> JudgeRequest:
    sampling = settings.sampling_params or SamplingParams()
    messages = [
        {
            "role": message.role,
            "content": "".join(render(text, sample) for text in texts_of(message)),
        }
        for message in settings.input
    ]
    return JudgeRequest(
        model=judge.model,
        # Also in words: not every server enforces the schema.
        messages=[{"role": "system", "content": wanted}, *messages],
        max_tokens=sampling.max_completions_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=_seed(sampling, messages),
        reasoning_effort=sampling.reasoning_effort,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "grade", "strict": True, "schema": schema},
        },
    )


def _seed(sampling: SamplingParams, messages: list[JsonObject]) -> int | None:
    """The seed of one verdict: that of the grader, with what is judged. Greedy verdicts do not
    depend on it and keep the grader's, under which they are found again."""
    if sampling.seed is None or sampling.temperature == 0:
        return sampling.seed
    return derived_seed(sampling.seed, json.dumps(messages)) % SEEDS
