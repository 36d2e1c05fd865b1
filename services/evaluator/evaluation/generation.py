"""Generates and grades answers to the samples of a file with bounded concurrency."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Protocol

from services.contracts.base import JsonObject
from services.contracts.evaluation.results import DISPUTED, ParsingOutcome
from services.contracts.failures import LeftOut
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.sampling import JsonPrediction
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import BenchmarkSpec
from services.evaluator.evaluation.totals import RunningTotals
from services.evaluator.failures import FailureWatch, RequestFailure, first_error
from services.metrics.extraction import (
    REASONING_ENDS,
    ExtractionOutcome,
    at_path,
    extract_json,
    has_path,
)
from services.rewards.graders.bounded_integer import AGREES
from services.rewards.interface import Component, RewardFailed, Sample, Score
from services.rollouts.loop import ENGINE
from services.rollouts.outages import OutageWatch

GRADER = "grader"
KEPT_PROMPT = 8_000
"""Characters of a prompt that its rows keep; the file has it whole."""


class ChatModel(Protocol):
    """The model under evaluation, as a benchmark asks it.

    It retries by itself and returns failures instead of raising.
    """

    async def ask(
        self, messages: Sequence[JsonObject], sample: EvaluationSample
    ) -> Answer | Unanswered:
        """Answer ``messages``: the sample's, possibly after a system prompt."""


class Engine(Protocol):
    """What answers all benchmarks of an evaluation."""

    def asked_by(self, spec: BenchmarkSpec) -> ChatModel:
        """The model as a benchmark asks it."""

    async def watch(self) -> None:
        """Raise once the model is permanently gone; otherwise never return."""


@dataclass(frozen=True)
class Generation:
    """Turns samples of a benchmark into durable, graded rows and keeps their totals.

    ``outages`` ends the job with an `Outage` when tools or graders lose most samples; an engine
    that fails is left to `FailureWatch`.
    """

    model: ChatModel
    grading: "Grading"
    results: AppendLog[ResultRow]
    totals: RunningTotals
    system_prompt: str | None
    outages: OutageWatch | None = None

    async def ask(self, sample: EvaluationSample) -> RequestFailure | None:
        """Send a sample, grade the answer and store its row; returns the failure of the model, if
        any."""
        window = None if self.outages is None else self.outages.begin()
        outcome = await self.model.ask(self._conversation(sample), sample)
        if isinstance(outcome, Unanswered):
            self._keep(self.grading.unanswered_row(sample, outcome), window)
            return outcome.failure if _is_of_model(outcome.left_out) else None
        self._keep(await self.grading.row(sample, outcome), window)
        return None

    def _conversation(self, sample: EvaluationSample) -> Sequence[JsonObject]:
        return sample.opened(self.system_prompt)

    def _keep(self, row: ResultRow, window: int | None) -> None:
        self.results.append(row)
        self.totals.add(row)
        if self.outages is not None:
            is_engines = row.left_out is not None and row.left_out.source == ENGINE
            self.outages.count(row.left_out, None if is_engines else window)
            if self.outages.outage is not None:
                raise self.outages.outage


def _is_of_model(left_out: LeftOut | None) -> bool:
    """Whether a sample without an answer was lost by the model, not by a tool that it called."""
    return left_out is None or left_out.source == ENGINE


async def generate(
    asked: Iterator[tuple[Generation, EvaluationSample]],
    concurrency: int,
    watch: FailureWatch,
    *background: Coroutine[Any, Any, None],
) -> None:
    """Ask every sample, at most ``concurrency`` at a time, reading ``asked`` lazily.

    ``background`` tasks run concurrently. The first error cancels everything.
    """
    try:
        async with asyncio.TaskGroup() as group:
            around = [group.create_task(task) for task in background]
            asking = [group.create_task(_ask_all(asked, watch)) for _ in range(concurrency)]
            await asyncio.wait(asking)
            for task in around:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
    watch.finish()


async def _ask_all(
    asked: Iterator[tuple[Generation, EvaluationSample]], watch: FailureWatch
) -> None:
    # All tasks share one iterator, which bounds the concurrency.
    for generation, sample in asked:
        failure = await generation.ask(sample)
        if failure is None:
            watch.answered()
        else:
            watch.failed(failure)


@dataclass(frozen=True)
class Grading:
    """Makes rows of answers: correct from a score of ``pass_threshold``, or up to it where lower
    scores are better.

    Graders see the answer without its reasoning, unless ``keep_reasoning`` is set; with
    ``prediction``, one value of its JSON. An answer without that value is wrong, and has no score
    where 0 could be the best one. ``subtask_of`` the fields of a row is the group of samples that
    have no score.
    """

    grader: Component
    pass_threshold: float
    keep_reasoning: bool = False
    prediction: JsonPrediction | None = None
    benchmark: str | None = None
    lower_is_better: bool = False
    subtask_of: Callable[[JsonObject], str | None] | None = None

    async def row(self, sample: EvaluationSample, answer: Answer) -> ResultRow:
        """The graded answer; without a score, the reason is its ``error``."""
        text, parsing = self._graded_text(answer.text)
        score, error = self._without_value()
        left_out: LeftOut | None = None
        if text is not None:
            score, error, left_out = await self._score(sample, text, answer.environments)
        return ResultRow(
            benchmark=self.benchmark,
            index=sample.index,
            sample=sample.sample,
            prompt=sample.prompt(KEPT_PROMPT),
            tags=[*sample.tags, *_tags(score)],
            gold=list(sample.gold),
            answer=answer.text,
            extracted=score.extracted if score else None,
            vote=score.vote if score else None,
            parsing=parsing,
            group=score.group if score else self._subtask(sample),
            measures=dict(score.measures) or None if score else None,
            tools=answer.tools,
            score=score.value if score else None,
            correct=self._passes(score) if score else None,
            error=error,
            left_out=left_out,
            finish_reason=answer.finish_reason,
            status_code=HTTPStatus.OK,
            attempts=answer.attempts,
            latency_seconds=answer.latency_seconds,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )

    def unanswered_row(self, sample: EvaluationSample, outcome: Unanswered) -> ResultRow:
        """The row of a sample that has no answer."""
        return ResultRow(
            benchmark=self.benchmark,
            index=sample.index,
            sample=sample.sample,
            prompt=sample.prompt(KEPT_PROMPT),
            tags=list(sample.tags),
            gold=list(sample.gold),
            answer=None,
            group=self._subtask(sample),
            tools=outcome.tools,
            correct=None,
            error=outcome.failure.message,
            left_out=outcome.left_out,
            status_code=outcome.failure.status_code,
            attempts=outcome.attempts,
        )

    def _subtask(self, sample: EvaluationSample) -> str | None:
        return None if self.subtask_of is None else self.subtask_of(sample.extra)

    def _without_value(self) -> tuple[Score | None, str | None]:
        if self.lower_is_better:
            return None, "the answer has no value at prediction.path"
        return Score(0.0), None

    def _passes(self, score: Score) -> bool:
        if self.lower_is_better:
            return score.value <= self.pass_threshold
        return score.value >= self.pass_threshold

    def _graded_text(self, answer: str) -> tuple[str | None, ParsingOutcome | None]:
        """What is graded, and what became of the JSON if that is asked for."""
        if self.prediction is None:
            return answer, None
        ends = self.prediction.reasoning_ends or REASONING_ENDS
        extraction = extract_json(answer, ends, has_path(self.prediction.path))
        outcome: ParsingOutcome = extraction.outcome.value
        if extraction.outcome is not ExtractionOutcome.PARSED:
            return None, outcome
        try:
            value = at_path(extraction.value, self.prediction.path)
        except LookupError:
            return None, outcome
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), outcome

    async def _score(
        self, sample: EvaluationSample, text: str, environments: Sequence[EnvironmentRecord]
    ) -> tuple[Score | None, str | None, LeftOut | None]:
        """The score of a text, or why there is none, and whether that is the infrastructure's."""
        graded = Sample.of_answer(
            text, sample.messages, sample.gold, sample.extra, environments=environments
        )
        if self.keep_reasoning or self.prediction is not None:
            graded = replace(graded, keeps_reasoning=True)
        try:
            return await self.grader.score(graded), None, None
        except RewardFailed as failure:
            error = f"the answer was not graded: {failure.message}"
            if failure.cause is None:
                return None, error, None
            lost = LeftOut(source=GRADER, cause=failure.cause, message=failure.message)
            return None, error, lost


def _tags(score: Score | None) -> list[str]:
    """The tag of an answer that rule and second opinion grade differently."""
    return [DISPUTED] if score is not None and score.measures.get(AGREES) == 0 else []
