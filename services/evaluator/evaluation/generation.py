"""Asking a model the samples of a file, a bounded number at a time."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from services.contracts.base import JsonObject
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.answers import Answer, Unanswered
from services.evaluator.evaluation.failures import FailureWatch
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.tally import Tally
from services.evaluator.graders.grader import Grader
from services.evaluator.samples import Sample


class ChatModel(Protocol):
    """Who is asked. Retries are its own; what it cannot get answered it says, never raises."""

    async def ask(self, messages: Sequence[JsonObject]) -> Answer | Unanswered:
        """Answer a conversation."""

    async def watch(self) -> None:
        """Raise once the model is gone for good; else never return."""


class Generation:
    """Turns samples into durable, graded rows and counts them."""

    def __init__(
        self,
        model: ChatModel,
        grader: Grader,
        results: AppendLog[ResultRow],
        tally: Tally,
        *,
        system_prompt: str | None,
    ) -> None:
        self._model = model
        self._grader = grader
        self._results = results
        self._tally = tally
        self._system_prompt = system_prompt
        self._watch = FailureWatch(answered=tally.answered)

    async def run(
        self, samples: Iterator[Sample], concurrency: int, *background: Coroutine[Any, Any, None]
    ) -> None:
        """Ask every sample, at most ``concurrency`` at a time, reading ``samples`` as they are
        needed. ``background`` runs meanwhile. The first error of anything ends everything."""
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

    async def _ask_all(self, samples: Iterator[Sample]) -> None:
        # All of these tasks draw from the one iterator: it is the window.
        for sample in samples:
            self._finish(sample, await self._model.ask(self._conversation(sample)))

    def _conversation(self, sample: Sample) -> Sequence[JsonObject]:
        if self._system_prompt is None or sample.messages[0].get("role") == "system":
            return sample.messages
        return [{"role": "system", "content": self._system_prompt}, *sample.messages]

    def _finish(self, sample: Sample, outcome: Answer | Unanswered) -> None:
        row = self._row(sample, outcome)
        self._results.append(row)
        self._tally.add(row)
        if isinstance(outcome, Unanswered):
            self._watch.failed(outcome.failure)
        else:
            self._watch.answered()

    def _row(self, sample: Sample, outcome: Answer | Unanswered) -> ResultRow:
        if isinstance(outcome, Unanswered):
            return ResultRow(
                index=sample.index,
                gold=list(sample.gold),
                answer=None,
                correct=None,
                error=outcome.failure.message,
                status_code=outcome.failure.status_code,
                attempts=outcome.attempts,
            )
        verdict = self._grader.grade(outcome.text, sample.gold)
        return ResultRow(
            index=sample.index,
            gold=list(sample.gold),
            answer=outcome.text,
            extracted=verdict.extracted,
            correct=verdict.correct,
            finish_reason=outcome.finish_reason,
            status_code=HTTPStatus.OK,
            attempts=outcome.attempts,
            latency_seconds=outcome.latency_seconds,
            prompt_tokens=outcome.prompt_tokens,
            completion_tokens=outcome.completion_tokens,
        )


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single error of a group."""
    error = errors.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
