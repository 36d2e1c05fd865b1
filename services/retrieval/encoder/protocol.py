"""Wire protocol between an encoder and its clients.

A message is the lengths of header and body (4 bytes each, big-endian), a JSON header, and a body of
little-endian float32 rows. Answers repeat the request's id and arrive in any order. Both ends
belong to one user on one host; lengths are bounded all the same, so that a bug cannot exhaust
memory.
"""

import asyncio
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from services.retrieval.encoder.specification import EncoderDescription, TextKind

MAX_HEADER_BYTES = 8 << 20
MAX_BODY_BYTES = 64 << 20
MAX_TEXTS = 1024
MAX_TEXT_CHARACTERS = 32_768
"""Texts are truncated to this; no encoder reads that much."""

PART_BYTES = 1 << 20
_PREFIX = struct.Struct(">II")
_FLOAT = np.dtype("<f4")


class ProtocolError(Exception):
    """The peer sent an invalid message."""


class Operation(StrEnum):
    """Operations of an encoder."""

    DESCRIBE = "describe"  # description, once the model is loaded
    HEALTH = "health"  # age of the current batch
    ENCODE = "encode"  # vectors of texts
    SCORE = "score"  # relevance of texts to the first one
    CANCEL = "cancel"  # cancel the request with this id; has no answer


class EncoderRequest(BaseModel):
    """A request; ``deadline`` is a time of the host's monotonic clock."""

    id: int = Field(ge=0)
    operation: Operation
    kind: TextKind = TextKind.QUERY
    texts: list[Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]] = Field(
        default=[], max_length=MAX_TEXTS
    )
    deadline: float | None = Field(default=None, allow_inf_nan=False)


class EncoderFailure(BaseModel):
    """Why a request failed; ``code`` is that of an error in `errors`."""

    code: str
    message: str


class Response(BaseModel):
    """An answer; ``rows`` and ``columns`` are the shape of the body."""

    id: int
    failure: EncoderFailure | None = None
    description: EncoderDescription | None = None
    busy_seconds: float | None = None
    rows: int = Field(default=0, ge=0)
    columns: int = Field(default=0, ge=0)


def encoded_texts(texts: Iterable[str]) -> Iterator[bytes]:
    """Texts as JSON strings, truncated; lone surrogates become question marks."""
    for text in texts:
        yield json.dumps(text[:MAX_TEXT_CHARACTERS], ensure_ascii=False).encode(errors="replace")


def parts(texts: Iterable[bytes], most: int = MAX_TEXTS) -> Iterator[list[bytes]]:
    """Split encoded texts into messages of at most ``most`` texts and about a megabyte each."""
    part: list[bytes] = []
    size = 0
    for text in texts:
        if part and (len(part) == most or size + len(text) > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def request_message(
    number: int,
    operation: Operation,
    *,
    kind: TextKind = TextKind.QUERY,
    texts: Sequence[bytes] = (),
    deadline: float | None = None,
) -> bytes:
    """Serialize a request; ``texts`` come from `encoded_texts`."""
    fields = {"id": number, "operation": operation, "kind": kind, "deadline": deadline}
    header = json.dumps(fields).encode()
    return message(b'%b,"texts":[%b]}' % (header[:-1], b",".join(texts)))


def message(header: bytes, body: bytes = b"") -> bytes:
    """Frame a message; raises `ProtocolError` when it exceeds the limits."""
    _check(len(header), len(body))
    return b"".join((_PREFIX.pack(len(header), len(body)), header, body))


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """Read a header and body, or None at the end of the stream; raises `ProtocolError`."""
    try:
        prefix = await reader.readexactly(_PREFIX.size)
        header_length, body_length = _PREFIX.unpack(prefix)
        _check(header_length, body_length)
        return await reader.readexactly(header_length), await reader.readexactly(body_length)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ProtocolError("a message ends early") from None
        return None


def parse_request(header: bytes) -> EncoderRequest:
    """Parse a request; raises `ProtocolError`."""
    try:
        return EncoderRequest.model_validate_json(header)
    except ValidationError as error:
        raise ProtocolError(f"invalid request: {error.error_count()} wrong fields") from None


def parse_response(header: bytes, body: bytes) -> tuple[Response, NDArray[np.float32]]:
    """Parse an answer and its array (rows, columns); raises `ProtocolError`."""
    try:
        response = Response.model_validate_json(header)
    except ValidationError as error:
        raise ProtocolError(f"invalid answer: {error.error_count()} wrong fields") from None
    if response.rows * response.columns * _FLOAT.itemsize != len(body):
        raise ProtocolError("an array does not match its shape")
    array = np.frombuffer(body, dtype=_FLOAT).reshape(response.rows, response.columns)
    return response, array.astype(np.float32)


def response_message(response: Response, array: NDArray[np.float32] | None = None) -> bytes:
    """Serialize an answer with a 2-dimensional array."""
    if array is None:
        return message(response.model_dump_json().encode())
    rows, columns = array.shape
    shaped = response.model_copy(update={"rows": rows, "columns": columns})
    body = np.ascontiguousarray(array, dtype=_FLOAT).tobytes()
    return message(shaped.model_dump_json().encode(), body)


def _check(header_length: int, body_length: int) -> None:
    if header_length > MAX_HEADER_BYTES or body_length > MAX_BODY_BYTES:
        raise ProtocolError(f"a message of {header_length + body_length} bytes is too long")
