"""Generates and grades answers to the samples of a file with bounded concurrency."""

import asyncio
import json
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Protocol

from services.contracts.base import JsonObject
from services.contracts.evaluations import JsonPrediction, ParsingOutcome
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.results import ResultRow, RunningTotals
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.failures import FailureWatch, first_error
from services.metrics.extraction import REASONING_ENDS, ExtractionOutcome, at_path, extract_json
from services.rewards.interface import Component, RewardFailed, Sample, Score


class ChatModel(Protocol):
    """The model under evaluation. It retries by itself and returns failures instead of raising."""

    async def ask(
        self, messages: Sequence[JsonObject], sample: EvaluationSample
    ) -> Answer | Unanswered:
        """Answer ``messages``: those of ``sample``, perhaps behind a system prompt."""

    async def watch(self) -> None:
        """Raise once the model is permanently gone; otherwise never return."""


class Generation:
    """Turns samples into durable, graded rows and keeps their totals."""

    def __init__(
        self,
        model: ChatModel,
        grading: "Grading",
        results: AppendLog[ResultRow],
        totals: RunningTotals,
        *,
        system_prompt: str | None,
    ) -> None:
        self._model = model
        self._grading = grading
        self._results = results
        self._totals = totals
        self._system_prompt = system_prompt
        self._watch = FailureWatch(answered=totals.answered)

    async def run(
        self,
        samples: Iterator[EvaluationSample],
        concurrency: int,
        *background: Coroutine[Any, Any, None],
    ) -> None:
        """Ask every sample, at most ``concurrency`` at a time, reading ``samples`` lazily.

        ``background`` tasks run meanwhile. The first error cancels everything.
        """
        try:
            async with asyncio.TaskGroup() as group:
                around = [group.create_task(task) for task in (self._model.watch(), *background)]
                asking = [group.create_task(self._ask_all(samples)) for _ in range(concurrency)]
                await asyncio.wait(asking)
                for task in around:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        self._watch.finish()

    async def _ask_all(self, samples: Iterator[EvaluationSample]) -> None:
        # All tasks share one iterator, which bounds the concurrency.
        for sample in samples:
            outcome = await self._model.ask(self._conversation(sample), sample)
            if isinstance(outcome, Unanswered):
                self._keep(_unanswered_row(sample, outcome))
                self._watch.failed(outcome.failure)
            else:
                self._keep(await self._grading.row(sample, outcome))
                self._watch.answered()

    def _conversation(self, sample: EvaluationSample) -> Sequence[JsonObject]:
        if self._system_prompt is None or sample.messages[0].get("role") == "system":
            return sample.messages
        return [{"role": "system", "content": self._system_prompt}, *sample.messages]

    def _keep(self, row: ResultRow) -> None:
        self._results.append(row)
        self._totals.add(row)


class Grading:
    """Grades answers: correct from a score of ``pass_threshold``.

    Graders see the text behind the reasoning; with ``keep_reasoning`` all of it, and with
    ``prediction`` a value of its JSON. An answer without that value is wrong.
    """

    def __init__(
        self,
        grader: Component,
        pass_threshold: float,
        *,
        keep_reasoning: bool = False,
        prediction: JsonPrediction | None = None,
    ) -> None:
        self._grader = grader
        self._pass_threshold = pass_threshold
        self._keep_reasoning = keep_reasoning
        self._prediction = prediction

    async def row(self, sample: EvaluationSample, answer: Answer) -> ResultRow:
        """The graded answer; without a score, the reason is its ``error``."""
        text, parsing = self._graded_text(answer.text)
        score: Score | None = Score(0.0)
        error: str | None = None
        if text is not None:
            score, error = await self._score(sample, text)
        return ResultRow(
            index=sample.index,
            sample=sample.sample,
            gold=list(sample.gold),
            answer=answer.text,
            extracted=score.extracted if score else None,
            parsing=parsing,
            group=score.group if score else None,
            measures=dict(score.measures) or None if score else None,
            tools=answer.tools,
            score=score.value if score else None,
            correct=score.value >= self._pass_threshold if score else None,
            error=error,
            finish_reason=answer.finish_reason,
            status_code=HTTPStatus.OK,
            attempts=answer.attempts,
            latency_seconds=answer.latency_seconds,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )

    def _graded_text(self, answer: str) -> tuple[str | None, ParsingOutcome | None]:
        """What is graded, and what became of the JSON if that is asked for."""
        if self._prediction is None:
            return answer, None
        ends = self._prediction.reasoning_ends or REASONING_ENDS
        extraction = extract_json(answer, ends)
        outcome: ParsingOutcome = extraction.outcome.value
        if extraction.outcome is not ExtractionOutcome.PARSED:
            return None, outcome
        try:
            value = at_path(extraction.value, self._prediction.path)
        except LookupError:
            return None, outcome
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), outcome

    async def _score(self, sample: EvaluationSample, text: str) -> tuple[Score | None, str | None]:
        """The score of a text, or why there is none."""
        graded = Sample.of_answer(text, sample.messages, sample.gold, sample.extra)
        if self._keep_reasoning or self._prediction is not None:
            graded = replace(graded, keeps_reasoning=True)
        try:
            return await self._grader.score(graded), None
        except RewardFailed as failure:
            return None, f"the answer was not graded: {failure.message}"


def _unanswered_row(sample: EvaluationSample, outcome: Unanswered) -> ResultRow:
    return ResultRow(
        index=sample.index,
        sample=sample.sample,
        gold=list(sample.gold),
        answer=None,
        tools=outcome.tools,
        correct=None,
        error=outcome.failure.message,
        status_code=outcome.failure.status_code,
        attempts=outcome.attempts,
    )
