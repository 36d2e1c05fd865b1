"""The requests of a batch's input file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from services.contracts.base import JsonObject
from services.contracts.batches.batches import BatchEndpoint, CustomId
from services.contracts.validation import first_fault
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem, RowError, UnreadableFile, shown

_CONTENT = {
    BatchEndpoint.CHAT_COMPLETIONS: "messages",
    BatchEndpoint.COMPLETIONS: "prompt",
    BatchEndpoint.EMBEDDINGS: "input",
}
"""Fields that the body of a request must have besides its model."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request: its custom id, and the body to send."""

    custom_id: str
    model: str
    body: JsonObject


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    custom_id: CustomId
    method: str
    url: str
    body: JsonObject


def parse_request(row: JsonValue, endpoint: BatchEndpoint) -> BatchRequest:
    """Turn a row into a request; raises RowError naming the field at fault."""
    if not isinstance(row, dict):
        raise RowError(f"is {shown(row)}, not an object with custom_id, method, url and body")
    try:
        line = _Line.model_validate(row)
    except ValidationError as error:
        raise RowError(first_fault(error).sentence()) from None
    if line.method != "POST":
        raise RowError(f"method is {shown(line.method)}, not 'POST'")
    if line.url != endpoint:
        raise RowError(f"url is {shown(line.url)}, but the batch is for {endpoint}")
    return BatchRequest(line.custom_id, _checked_model(line.body, endpoint), line.body)


def read_requests(path: Path, endpoint: BatchEndpoint) -> Iterator[BatchRequest]:
    """Read the requests of a valid file one by one; raises UnreadableFile at a bad row."""
    for record in open_records(path):
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        try:
            yield parse_request(record.value, endpoint)
        except RowError as error:
            raise UnreadableFile(error.message, row=record.row) from None


def _checked_model(body: JsonObject, endpoint: BatchEndpoint) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RowError("body.model is missing" if model is None else "body.model is not a name")
    content = _CONTENT[endpoint]
    if not body.get(content):
        raise RowError(f"body.{content} is missing or empty")
    if body.get("stream"):
        raise RowError("body.stream is set; the requests of a batch are not streamed")
    return model
