"""The child process that sends the requests of a batch.

``python -m services.evaluator.batch.child <job_dir>`` in the core environment. It reads
``spec.json``, appends to ``output.jsonl`` and ``errors.jsonl`` and ends with the counts, or fails
with its cause. It may be killed at any time and restarted on the same folder: answered requests
are not sent again.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.batches.batches import BatchOutput, BatchResponse, BatchResult, RequestError
from services.core.ids import new_id
from services.evaluator.batch.outputs import BatchTotals, Outputs
from services.evaluator.batch.requests import BatchRequest, read_requests
from services.evaluator.batch.server import BatchServer, open_server
from services.evaluator.batch.spec import SPEC, BatchSpec
from services.evaluator.child_process import ChildContext, run_child
from services.evaluator.failures import FailureWatch, RequestFailure, first_error
from services.evaluator.progress import GenerationProgress, seconds_of_earlier_attempts
from services.inference.clients.retries import FailureKind, ServiceFailed
from services.parsing.foreign_json import parse_foreign


class Sending:
    """Sends requests until all have ended; requests unanswered at the deadline expire."""

    def __init__(
        self, server: BatchServer, outputs: Outputs, watch: FailureWatch, expires_at: float
    ) -> None:
        self._server = server
        self._outputs = outputs
        self._watch = watch
        self._expires_at = expires_at
        self.expired = False

    async def run(self, requests: Iterator[BatchRequest], concurrency: int) -> None:
        """Send all requests, at most ``concurrency`` at a time, reading them lazily."""
        # All tasks share one iterator, which bounds the concurrency.
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._send_all(requests))

    async def _send_all(self, requests: Iterator[BatchRequest]) -> None:
        for request in requests:
            try:
                async with asyncio.timeout(max(0.0, self._expires_at - time.time())):
                    await self._send(request)
            except TimeoutError:
                self.expired = True
                message = "the completion window ended before the request was answered"
                self._outputs.failed(_failure(request, "batch_expired", message))

    async def _send(self, request: BatchRequest) -> None:
        try:
            answer = await self._server.send(request.body)
        except ServiceFailed as error:
            self._outputs.failed(_failed(request, error))
            self._watch.failed(RequestFailure(error.status, error.message))
        else:
            response = BatchResponse(
                status_code=HTTPStatus.OK, request_id=new_id("req"), body=answer.value
            )
            self._outputs.answered(_line(request, response=response), answer.value)
            self._watch.answered()


def _failed(request: BatchRequest, error: ServiceFailed) -> BatchOutput:
    """The line of a request that the server did not answer, or answered with an error."""
    if error.kind in {FailureKind.STATUS, FailureKind.FINAL} and error.status is not None:
        response = BatchResponse(
            status_code=error.status, request_id=new_id("req"), body=_error_body(error)
        )
        return _line(request, response=response)
    timed_out = error.kind is FailureKind.TIMED_OUT
    code = "request_timeout" if timed_out else "request_failed"
    return _failure(request, code, error.message)


def _error_body(error: ServiceFailed) -> JsonObject:
    try:
        body = parse_foreign(error.body)
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"error": {"message": error.message}}


def _failure(request: BatchRequest, code: str, message: str) -> BatchOutput:
    return _line(request, error=RequestError(code=code, message=message))


def _line(
    request: BatchRequest,
    *,
    response: BatchResponse | None = None,
    error: RequestError | None = None,
) -> BatchOutput:
    return BatchOutput(
        id=new_id("batch_req"), custom_id=request.custom_id, response=response, error=error
    )


async def send_batch(spec: BatchSpec, context: ChildContext) -> BatchResult:
    """Send every request without an answer, and sum up all of them. Raises ``TemperError``."""
    total = sum(1 for _ in read_requests(spec.requests, spec.endpoint))
    totals = BatchTotals(total, seconds=seconds_of_earlier_attempts(context.job_dir))
    expired = False
    with Outputs(context.job_dir, totals) as outputs:
        if totals.done:
            answered = f"{totals.done} of {total} requests were answered in earlier attempts"
            context.reporter.message(answered)
        if totals.done < total:
            expired = await _send_rest(spec, context, outputs, totals)
    return BatchResult(
        model=spec.model_name, counts=totals.counts, usage=totals.usage, expired=expired
    )


async def _send_rest(
    spec: BatchSpec, context: ChildContext, outputs: Outputs, totals: BatchTotals
) -> bool:
    """Send the unanswered requests; returns whether the batch expired."""
    watch = FailureWatch(answered=totals.completed)
    left = (
        request
        for request in read_requests(spec.requests, spec.endpoint)
        if request.custom_id not in outputs.answered_ids
    )
    async with open_server(spec, context) as server:
        context.reporter.phase("generating")
        progress = GenerationProgress(context.reporter, totals, totals.total)
        sending = Sending(server, outputs, watch, spec.expires_at)
        concurrency = min(spec.max_concurrency, totals.total - totals.done)
        try:
            async with asyncio.TaskGroup() as group:
                background = server.watch(), outputs.sync_forever(), progress.report_forever()
                around = [group.create_task(each) for each in background]
                await sending.run(left, concurrency)
                for task in around:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        progress.finish()
    return sending.expired


async def _run(context: ChildContext) -> JsonObject:
    spec = BatchSpec.model_validate_json((context.job_dir / SPEC).read_bytes())
    result = await send_batch(spec, context)
    return result.model_dump(mode="json")


if __name__ == "__main__":
    run_child(Path(sys.argv[1]), _run)
