"""The part of an inference request's body that the gateway reads."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.inference_body import check_body
from services.parsing.foreign_json import storable_text

LARGE_BODY = 1 << 20
STOP_TOKENS = "stop_token_ids"
STREAM_OPTIONS = "stream_options"
INCLUDE_USAGE = "include_usage"


class InferenceBody(BaseModel):
    """A request in OpenAI's format; the engine checks all else."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(
        min_length=1, description="A registered model, a trained one, or a checkpoint."
    )


@dataclass(frozen=True)
class InferenceRequest:
    """A parsed body, and the model that it names."""

    model: str
    body: bytes
    value: JsonObject = field(repr=False)

    @property
    def strips_usage(self) -> bool:
        """Whether a stream is requested without the final event with its usage."""
        options = self.value.get(STREAM_OPTIONS) or {}
        return bool(self.value.get("stream")) and not options.get(INCLUDE_USAGE)

    def upstream_body(self, stop_token_ids: Sequence[int]) -> bytes:
        """The body for the engine: with the model's stop tokens, unless the request sets its own,
        and with usage requested."""
        added: JsonObject = {}
        if stop_token_ids and self.value.get(STOP_TOKENS) is None:
            added[STOP_TOKENS] = list(stop_token_ids)
        if self.strips_usage:
            added[STREAM_OPTIONS] = {**(self.value.get(STREAM_OPTIONS) or {}), INCLUDE_USAGE: True}
        if not added:
            return self.body
        if added.keys() & self.value.keys() or not self.body.startswith(b"{"):
            return json.dumps({**self.value, **added}).encode()
        # The rest stays byte for byte.
        return json.dumps(added)[:-1].encode() + b"," + self.body[1:]


async def parse_request(body: bytes, max_choices: int) -> InferenceRequest:
    """Parse a body; raises `InvalidRequest` as `check_body` does."""
    if len(body) > LARGE_BODY:  # parsing it would block the event loop
        return await asyncio.to_thread(_parse, body, max_choices)
    return _parse(body, max_choices)


def _parse(body: bytes, max_choices: int) -> InferenceRequest:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not a JSON object")
    model = value.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("model must be the name of a model", param="model")
    check_body(value, max_choices)
    # The rest goes to the engine as it came; a name is looked up, logged and shown.
    return InferenceRequest(storable_text(model), body, value)
