"""Messages over a socket, whole, in pieces and broken."""

import functools
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.guest import frames

HEADERS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    max_size=5,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(10)
        theirs.settimeout(10)
        yield ours, theirs


def received(data: bytes) -> tuple[frames.Header, bytes]:
    """What is received when these bytes come, and then nothing more."""
    ours, theirs = socket.socketpair()
    with theirs:

        def send() -> None:
            with ours:
                ours.sendall(data)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            header, _ = frames.receive(theirs)
            return header, bytes(theirs.recv(1 << 20, socket.MSG_WAITALL))
        finally:
            theirs.close()
            sender.join()


@given(HEADERS, st.binary(max_size=200))
def test_messages_arrive_unchanged(header: frames.Header, body: bytes) -> None:
    assert received(frames.encode(header, body_length=len(body)) + body) == (header, body)


@given(HEADERS, st.integers(min_value=0))
def test_a_message_that_ends_early_raises_channel_closed(header: frames.Header, at: int) -> None:
    message = frames.encode(header)

    with pytest.raises(frames.ChannelClosed):
        received(message[: at % len(message)])


def test_a_header_over_the_limit_is_not_read() -> None:
    with pytest.raises(frames.ChannelClosed):
        received(frames.PREFIX.pack(frames.LARGEST_HEADER + 1, 0) + b"{}")


def test_a_header_at_the_limit_is_read() -> None:
    text = json.dumps({"text": "x"}).encode().ljust(frames.LARGEST_HEADER)

    assert received(frames.PREFIX.pack(len(text), 0) + text) == ({"text": "x"}, b"")


def test_descriptors_arrive_with_their_message(ends: tuple[socket.socket, ...]) -> None:
    ours, theirs = ends
    read_end, write_end = os.pipe()
    frames.send(ours, {"first": 1}, descriptors=(read_end,))
    frames.send(ours, {"second": 2})
    os.close(read_end)

    first, descriptors = frames.receive(theirs)
    second, none = frames.receive(theirs)

    os.write(write_end, b"through")
    os.close(write_end)
    assert (first, second, none) == ({"first": 1}, {"second": 2}, [])
    assert [os.read(descriptor, 99) for descriptor in descriptors] == [b"through"]
    os.close(descriptors[0])


@pytest.mark.parametrize("header", [{"small": 1}, {"large": "x" * (1 << 20)}])
def test_sending_to_a_closed_peer_raises_channel_closed(
    ends: tuple[socket.socket, ...], header: Any
) -> None:
    ours, theirs = ends
    theirs.close()

    with pytest.raises(frames.ChannelClosed):
        frames.send(ours, header, descriptors=(0,))
    with pytest.raises(frames.ChannelClosed):
        frames.send(ours, header)


def test_awaiting_a_message_does_not_consume_it(ends: tuple[socket.socket, ...]) -> None:
    ours, theirs = ends
    frames.send(ours, {"kept": True})

    assert frames.is_request_next(theirs)

    assert frames.receive(theirs) == ({"kept": True}, [])


def test_late_cancellations_are_dropped(ends: tuple[socket.socket, ...]) -> None:
    ours, theirs = ends
    ours.sendall(frames.CANCEL * 2 + frames.encode({"next": 1}))

    answers = [frames.is_request_next(theirs) for _ in range(3)]

    assert answers == [False, False, True]
    assert frames.receive(theirs)[0] == {"next": 1}


def test_waiting_for_a_message_notices_a_closed_peer(ends: tuple[socket.socket, ...]) -> None:
    ours, theirs = ends
    ours.sendall(frames.CANCEL)
    ours.close()

    assert not frames.is_request_next(theirs)
    with pytest.raises(frames.ChannelClosed):
        frames.is_request_next(theirs)


@pytest.mark.parametrize(
    "wait",
    [frames.receive, frames.is_request_next, functools.partial(frames.exactly, length=1)],
    ids=["receive", "is_request_next", "exactly"],
)
def test_a_peer_that_closed_with_unread_data_counts_as_closed(
    wait: Callable[[socket.socket], object],
) -> None:
    own_end, other_end = socket.socketpair()
    with own_end:
        own_end.sendall(b"never read")
        other_end.close()

        with pytest.raises(frames.ChannelClosed):
            wait(own_end)
