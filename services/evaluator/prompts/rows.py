"""The durable rows of a prompt batch: a log in completion order.

A record that is retried gets another row; the last one counts.
"""

from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from services.contracts.base import JsonObject
from services.datasets.append_log import AppendLog, read_records
from services.evaluator.failures import RequestFailure
from services.inference.chat_answers import token_count

ROWS = "rows.jsonl"
_NONE = -1


class PromptRow(BaseModel):
    """What became of one record: an answer, or an error.

    ``result`` is the text, a list of texts for ``n`` above 1. ``time_cost`` is in seconds, all
    attempts included. ``error_body`` is the beginning of the endpoint's last answer.
    """

    model_config = ConfigDict(extra="forbid")

    index: int
    status_code: int | None = None
    result: str | list[str | None] | None = None
    error: str | None = None
    time_cost: float = 0.0
    usage: JsonObject | None = None
    attempts: int = 0
    model: str | None = None
    endpoint: str | None = None
    finish_reason: str | list[str | None] | None = None
    tool_calls: list[Any] | None = None
    error_body: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether a retry is pointless: there is an answer, or the request was rejected."""
        if self.error is None:
            return True
        return RequestFailure(self.status_code, self.error).is_of_the_sample


class PromptRows:
    """Appends rows, and reads the last row of each of ``total`` records in order."""

    def __init__(self, folder: Path, total: int) -> None:
        self._path = folder / ROWS
        self._offsets = array("q", [_NONE]) * total
        self._settled = bytearray(total)
        self.answered = 0
        self.failed = 0
        self.completion_tokens = 0
        self._failed = bytearray(total)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._log = stack.enter_context(AppendLog[PromptRow](self._path))
            for span, row in read_records(self._path, PromptRow):
                self._note(row, span.offset)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def is_settled(self, index: int) -> bool:
        """Whether a resumed batch skips the record."""
        return bool(self._settled[index])

    def has_answer(self, index: int) -> bool:
        """Whether the last row of a record is an answer."""
        return self._offsets[index] != _NONE and not self._failed[index]

    def append(self, row: PromptRow) -> None:
        """Append a row."""
        self._note(row, self._log.append(row).offset)

    async def sync_forever(self) -> None:
        """Sync rows periodically until cancelled."""
        await self._log.sync_forever()

    def in_order(self) -> Iterator[PromptRow]:
        """The last row of each record that has one, in the order of the records."""
        with open(self._path, "rb") as file:
            for offset in self._offsets:
                if offset != _NONE:
                    file.seek(offset)
                    yield PromptRow.model_validate_json(file.readline())

    def _note(self, row: PromptRow, offset: int) -> None:
        index = row.index
        if self._offsets[index] != _NONE:
            self._count(self._failed[index], -1)
        self._offsets[index] = offset
        self._settled[index] = row.is_settled
        self._failed[index] = row.error is not None
        self._count(self._failed[index], 1)
        self.completion_tokens += token_count({"usage": row.usage}, "completion_tokens") or 0

    def _count(self, is_failure: int, by: int) -> None:
        if is_failure:
            self.failed += by
        else:
            self.answered += by
