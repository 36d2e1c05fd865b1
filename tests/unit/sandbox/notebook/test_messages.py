"""Messages are reassembled however the socket splits them."""

import contextlib
import socket
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.guest.frames import LARGEST_HEADER, PREFIX, ChannelClosed, Header, encode
from services.sandbox.guest.notebook.messages import Inbox, MalformedMessage, split

MESSAGES = st.lists(st.tuples(st.dictionaries(st.text(), st.integers()), st.binary(max_size=300)))


def received(pieces: Iterable[bytes]) -> list[tuple[Header, bytes]]:
    """All messages that an inbox finds in a stream of these pieces."""
    found = []
    sender, receiver = socket.socketpair()
    with receiver, contextlib.suppress(ChannelClosed):
        inbox = Inbox(receiver)
        with sender:
            for piece in pieces:
                sender.sendall(piece)
                found += list(inbox.take())
        while True:
            found += list(inbox.take())
    return found


@given(messages=MESSAGES, cuts=st.lists(st.integers(1, 40), min_size=1))
def test_message_boundaries_do_not_matter(
    messages: list[tuple[Header, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(encode(header, body_length=len(body)) + body for header, body in messages)
    pieces: list[bytes] = []
    start = 0
    while start < len(stream):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(stream[start : start + size])
        start += size
    assert received(pieces) == messages


@given(message=st.tuples(st.just({"type": "x"}), st.binary(max_size=50)), lost=st.integers(1, 30))
def test_an_incomplete_message_is_not_delivered(message: tuple[Header, bytes], lost: int) -> None:
    header, body = message
    stream = encode(header, body_length=len(body)) + body
    assert received([stream, stream[:-lost]]) == [message]


@pytest.mark.parametrize(
    "stream",
    [
        PREFIX.pack(2, 0) + b"no",
        PREFIX.pack(2, 0) + b"\xff\xff",
        PREFIX.pack(100_000, 0) + b"[" * 100_000,
        PREFIX.pack(LARGEST_HEADER + 1, 0),
    ],
    ids=["no JSON", "no text", "too deep", "too long"],
)
def test_malformed_messages_are_detected(stream: bytes) -> None:
    with pytest.raises(MalformedMessage):
        received([stream])


def test_no_data_is_not_the_end() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        inbox = Inbox(receiver)
        assert list(inbox.take()) == []
        sender.close()
        with pytest.raises(ChannelClosed):
            list(inbox.take())


@given(st.lists(st.binary()))
def test_split_parts_equal_the_original(parts: list[bytes]) -> None:
    assert split(b"".join(parts), [len(part) for part in parts]) == parts
