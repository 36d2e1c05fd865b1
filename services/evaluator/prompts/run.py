"""Runs a prompt batch: renders, sends and stores every record without a settled row."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.batches.prompt_batches import PromptBatch, PromptEndpoint
from services.contracts.errors import InvalidRequest
from services.evaluator.failures import FailureWatch, RequestFailure, first_error
from services.evaluator.prompts.endpoints import EndpointPool, Reply, Unanswered
from services.evaluator.prompts.engine import OwnEngineAnswering
from services.evaluator.prompts.outputs import write_rows
from services.evaluator.prompts.parsing import Predictions
from services.evaluator.prompts.records import read_prompt_records
from services.evaluator.prompts.rows import PromptRow, PromptRows
from services.evaluator.prompts.status import StatusLine
from services.evaluator.prompts.template import PromptTemplate, RenderFailed

_ALWAYS = ("index", "status_code", "result", "error", "time_cost", "usage", "attempts")


class Answering:
    """Processes records with bounded concurrency; all tasks share one iterator of them."""

    def __init__(
        self,
        batch: PromptBatch,
        template: PromptTemplate,
        rows: PromptRows,
        pool: EndpointPool,
        to_ask: int,
    ) -> None:
        self._body = batch.body
        self._template = template
        self._rows = rows
        self._pool = pool
        self._watch = FailureWatch(
            answered=rows.answered, unavailable_seconds=batch.patience_seconds
        )
        self.status = StatusLine(rows, lambda: pool.in_flight, to_ask)

    async def run(self, records: Iterator[tuple[int, JsonObject]], concurrency: int) -> None:
        """Process all records; raises `JobFailed` once further requests are pointless."""
        try:
            async with asyncio.TaskGroup() as group:
                background = self._rows.sync_forever(), self.status.show_forever()
                around = [group.create_task(each) for each in background]
                asking = [group.create_task(self._ask_all(records)) for _ in range(concurrency)]
                await asyncio.wait(asking)
                for task in around:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            self.status.clear()

    async def _ask_all(self, records: Iterator[tuple[int, JsonObject]]) -> None:
        for index, record in records:
            begun = time.monotonic()
            row, failure = await self._ask(index, record)
            row.time_cost = round(time.monotonic() - begun, 3)
            self._rows.append(row)
            self.status.ended += 1
            if failure is not None:
                self._watch.failed(failure)
            elif row.error is None:
                self._watch.answered()

    async def _ask(self, index: int, record: JsonObject) -> tuple[PromptRow, RequestFailure | None]:
        """The row of a record, and why no endpoint answered it."""
        try:
            messages = self._template.render(record)
        except RenderFailed as error:
            return PromptRow(index=index, error=f"Render Error: {error.message}"), None
        try:
            reply = await self._pool.ask({"messages": messages, **self._body})
        except Unanswered as unanswered:
            return _failed(index, unanswered), unanswered.failure
        return _answered(index, reply), None


def _answered(index: int, reply: Reply) -> PromptRow:
    choices = reply.answer.choices
    texts = [choice.content for choice in choices]
    reasons = [choice.finish_reason for choice in choices]
    single = len(choices) == 1
    return PromptRow(
        index=index,
        status_code=HTTPStatus.OK,
        result=texts[0] if single else texts,
        usage=reply.answer.reported,
        attempts=reply.attempts,
        model=reply.endpoint.model,
        endpoint=reply.endpoint.base_url,
        finish_reason=reasons[0] if single else reasons,
        tool_calls=[call.as_json() for call in choices[0].tool_calls] or None,
    )


def _failed(index: int, unanswered: Unanswered) -> PromptRow:
    error = unanswered.error
    return PromptRow(
        index=index,
        status_code=error.status,
        error=error.message,
        attempts=unanswered.attempts,
        model=unanswered.endpoint.model,
        endpoint=unanswered.endpoint.base_url,
        error_body=error.body or None,
    )


async def answer(
    batch: PromptBatch, folder: Path, *, failed_again: bool, environment: Mapping[str, str]
) -> str:
    """Answer the batch, write its output, and return one line that sums it up.

    Records that were answered or rejected in earlier runs are not asked again, except that
    ``failed_again`` asks exactly those without an answer again. Raises `TemperError`.
    """
    template = PromptTemplate(batch.prompting)
    total = _checked(batch, template)
    with PromptRows(folder, total) as rows:
        ended = rows.has_answer if failed_again else rows.is_settled
        to_ask = sum(not ended(index) for index in range(total))
        left = (
            (index, record)
            for index, record in enumerate(read_prompt_records(batch.records, batch.delimiter))
            if not ended(index)
        )
        if to_ask and batch.engine is not None:
            await OwnEngineAnswering(batch, template, rows, folder, to_ask).run(left)
        elif to_ask:
            keys = _keys(batch, environment)
            async with EndpointPool(
                batch.endpoints,
                keys.get,
                concurrency=batch.concurrency,
                timeout_seconds=batch.timeout_seconds,
                patience_seconds=batch.patience_seconds,
            ) as pool:
                answering = Answering(batch, template, rows, pool, to_ask)
                await answering.run(left, min(batch.concurrency, to_ask))
        return f"{_write(batch, rows)} -> {batch.output}"


def _checked(batch: PromptBatch, template: PromptTemplate) -> int:
    """The number of records; raises InvalidRequest if there are none, or none with a field that the
    template needs."""
    total, fields = 0, set[str]()
    for record in read_prompt_records(batch.records, batch.delimiter):
        total += 1
        fields.update(record)
    if not total:
        raise InvalidRequest(f"{batch.records} has no records")
    template.check_fields(fields)
    return total


def _write(batch: PromptBatch, rows: PromptRows) -> str:
    counts = f"{rows.answered:,} answered, {rows.failed:,} failed"
    plain = map(_output_row, rows.in_order())
    if batch.parsing is None:
        write_rows(plain, batch.output, parsed=False)
        return counts
    predictions = Predictions(batch.parsing)
    write_rows(predictions.added_to(plain), batch.output, parsed=True)
    outcomes = ", ".join(f"{count:,} {name}" for name, count in predictions.outcomes.items())
    return f"{counts}; {outcomes or 'nothing to parse'}"


def _output_row(row: PromptRow) -> JsonObject:
    """The fields that every row has, and the others where they are set."""
    fields = row.model_dump(mode="json")
    return {key: value for key, value in fields.items() if key in _ALWAYS or value is not None}


def _keys(batch: PromptBatch, environment: Mapping[str, str]) -> dict[PromptEndpoint, str]:
    keys = {}
    for endpoint in batch.endpoints:
        name = endpoint.api_key_variable
        if name is None:
            continue
        if not environment.get(name):
            raise InvalidRequest(f"{endpoint.base_url}: the environment has no {name}")
        keys[endpoint] = environment[name]
    return keys
