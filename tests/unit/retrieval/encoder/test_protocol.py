"""The wire protocol of encoders."""

import asyncio
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from services.retrieval.encoder import protocol
from services.retrieval.encoder.protocol import Operation, ProtocolError, Response
from services.retrieval.encoder.specification import TextKind

ANY_TEXT = st.text(st.characters(), max_size=40)  # lone surrogates too


def received(data: bytes) -> tuple[bytes, bytes] | None:
    async def read() -> tuple[bytes, bytes] | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await protocol.read_message(reader)

    return asyncio.run(read())


@given(st.lists(ANY_TEXT, max_size=20), st.integers(0, 2**53), st.sampled_from(TextKind))
def test_a_request_round_trips(texts: list[str], number: int, kind: TextKind) -> None:
    data = protocol.request_message(
        number,
        Operation.ENCODE,
        kind=kind,
        texts=list(protocol.encoded_texts(texts)),
        deadline=1.5,
    )

    message = received(data)
    assert message is not None
    request = protocol.parse_request(message[0])

    assert request.id == number
    assert request.kind is kind
    assert request.deadline == 1.5
    assert request.texts == [text.encode(errors="replace").decode() for text in texts]


@given(arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=2)))
def test_vectors_round_trip_exactly(
    array: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    message = received(protocol.response_message(Response(id=7), array))
    assert message is not None

    response, arrived = protocol.parse_response(*message)

    assert response.id == 7
    assert arrived.shape == array.shape
    assert arrived.tobytes() == array.tobytes()


@given(st.lists(st.binary(max_size=50), max_size=60), st.integers(1, 9))
def test_parts_hold_all_texts_in_order(texts: list[bytes], most: int) -> None:
    parts = list(protocol.parts(texts, most))

    assert [text for part in parts for text in part] == texts
    assert all(1 <= len(part) <= most for part in parts)


def test_the_longest_texts_fit_in_messages() -> None:
    texts = ["\0" * protocol.MAX_TEXT_CHARACTERS + "unread"] * 100

    for part in protocol.parts(protocol.encoded_texts(texts)):
        message = received(protocol.request_message(1, Operation.ENCODE, texts=part))
        assert message is not None
        assert protocol.parse_request(message[0]).texts == [texts[0][:-6]] * len(part)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", protocol.MAX_HEADER_BYTES + 1, 0),
        struct.pack(">II", 2, protocol.MAX_BODY_BYTES + 1),
        struct.pack(">II", 10, 0) + b"{}",
        b"\0",
    ],
    ids=["long header", "long body", "short header", "short prefix"],
)
def test_malformed_messages_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        received(data)


def test_the_end_of_the_stream_is_not_an_error() -> None:
    assert received(b"") is None


@given(st.binary(max_size=60))
def test_malformed_requests_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.parse_request(data)


def test_an_array_that_does_not_match_its_shape_is_refused() -> None:
    header = Response(id=1, rows=2, columns=3).model_dump_json().encode()

    with pytest.raises(ProtocolError, match="shape"):
        protocol.parse_response(header, bytes(20))
