"""The body of a request for inference, as far as the gateway reads it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest

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
class Asked:
    """A body, and the model that it names."""

    model: str
    body: bytes
    value: JsonObject = field(repr=False)

    @property
    def hides_usage(self) -> bool:
        """Whether a stream is asked for without its usage at the end."""
        options = self.value.get(STREAM_OPTIONS) or {}
        if self.value.get("stream") is not True or not isinstance(options, dict):
            return False
        return not options.get(INCLUDE_USAGE)

    def sent(self, stop_token_ids: Sequence[int]) -> bytes:
        """The body with the tokens that end an answer of the model, unless it has its own, and the
        wish for usage."""
        added: JsonObject = {}
        if stop_token_ids and self.value.get(STOP_TOKENS) is None:
            added[STOP_TOKENS] = list(stop_token_ids)
        if self.hides_usage:
            added[STREAM_OPTIONS] = {**(self.value.get(STREAM_OPTIONS) or {}), INCLUDE_USAGE: True}
        if not added:
            return self.body
        if added.keys() & self.value.keys() or not self.body.startswith(b"{"):
            return json.dumps({**self.value, **added}).encode()
        # Everything else stays as the client wrote it.
        return json.dumps(added)[:-1].encode() + b"," + self.body[1:]


async def read_asked(body: bytes) -> Asked:
    """Read a body; raises `InvalidRequest`."""
    if len(body) > LARGE_BODY:  # parsing it would stop the event loop
        return await asyncio.to_thread(_parse, body)
    return _parse(body)


def _parse(body: bytes) -> Asked:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not a JSON object")
    model = value.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("model must be the name of a model", param="model")
    return Asked(model, body, value)
