"""The service's end of a channel, against the blocking end that slots have."""

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from services.sandbox.guest import frames
from services.sandbox.pool.protocol import Channel

SECONDS = 30


def talk(
    ours: Callable[[Channel], Awaitable[Any]], theirs: Callable[[socket.socket], Any]
) -> tuple[Any, Any]:
    """What the two ends of a channel come to, the other one in a thread."""
    own_end, other_end = socket.socketpair()
    other_end.settimeout(SECONDS)
    results: list[Any] = []

    def other() -> None:
        with other_end:
            results.append(theirs(other_end))

    async def run() -> Any:
        channel = Channel(own_end)
        thread = threading.Thread(target=other)
        thread.start()
        try:
            async with asyncio.timeout(SECONDS):
                return await ours(channel)
        finally:
            channel.close()
            await asyncio.to_thread(thread.join)

    result = asyncio.run(run())
    return result, results[0]


@pytest.mark.parametrize("size", [0, 1, 5 << 20])
def test_a_message_with_bodies_and_descriptors(size: int) -> None:
    read_end, write_end = os.pipe()

    async def send(channel: Channel) -> None:
        await channel.send({"text": "\u00e9" * (size // 10)}, [b"a" * size, b"b"], [write_end])
        os.close(write_end)

    def receive(end: socket.socket) -> tuple[frames.Header, bytearray]:
        header, descriptors = frames.receive(end)
        os.write(descriptors[0], b"through")
        os.close(descriptors[0])
        return header, frames.exactly(end, size + 1)

    _, (header, body) = talk(send, receive)

    assert header == {"text": "\u00e9" * (size // 10)}
    assert body == b"a" * size + b"b"
    assert os.read(read_end, 99) == b"through"
    os.close(read_end)


def test_messages_are_received_one_by_one() -> None:
    def send(end: socket.socket) -> None:
        messages = [frames.encode({"n": n}, body_length=n) + b"x" * n for n in (0, 3, 100_000)]
        data = b"".join(messages)
        for at in range(0, len(data), 7777):
            end.sendall(data[at : at + 7777])

    async def receive(channel: Channel) -> list[tuple[frames.Header, bytes]]:
        return [await channel.receive() for _ in range(3)]

    received, _ = talk(receive, send)

    assert received == [({"n": n}, b"x" * n) for n in (0, 3, 100_000)]


def test_descriptors_are_received() -> None:
    read_end, write_end = os.pipe()

    def send(end: socket.socket) -> None:
        frames.send(end, {"with": 1}, descriptors=(read_end,))

    async def receive(channel: Channel) -> int:
        await channel.receive()
        taken = channel.take_descriptor()
        with pytest.raises(frames.ChannelClosed):
            channel.take_descriptor()
        return taken

    taken, _ = talk(receive, send)

    os.write(write_end, b"x")
    assert os.read(taken, 9) == b"x"
    for descriptor in (read_end, write_end, taken):
        os.close(descriptor)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        frames.encode({"cut": 1})[:-1],
        frames.encode({"body": "missing"}, body_length=5) + b"abcd",
        frames.PREFIX.pack(frames.LARGEST_HEADER + 1, 0),
    ],
)
def test_a_truncated_message_raises_channel_closed(data: bytes) -> None:
    async def receive(channel: Channel) -> None:
        with pytest.raises(frames.ChannelClosed):
            await channel.receive()

    talk(receive, lambda end: end.sendall(data))


def test_sending_to_a_closed_peer_raises_channel_closed() -> None:
    async def send(channel: Channel) -> None:
        with pytest.raises(frames.ChannelClosed):
            while True:
                await channel.send({"x": 1}, [b"x" * 1000])

    talk(send, lambda end: end.recv(1))


def test_a_cancellation_is_one_prefix() -> None:
    async def send(channel: Channel) -> None:
        await channel.send_cancel()

    def receive(end: socket.socket) -> bytes:
        return bytes(frames.exactly(end, len(frames.CANCEL)))

    assert talk(send, receive)[1] == frames.CANCEL


def test_cancelling_a_dead_slot_succeeds() -> None:
    async def send(channel: Channel) -> None:
        with pytest.raises(frames.ChannelClosed):
            await channel.receive()
        await channel.send_cancel()

    talk(send, lambda end: None)


@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop])
def test_closing_wakes_a_receiver_even_if_the_peer_stays_open(
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    own_end, other_end = socket.socketpair()

    async def run() -> None:
        channel = Channel(own_end)
        receiving = asyncio.create_task(channel.receive())
        await asyncio.sleep(0)  # it waits now
        channel.close()
        with pytest.raises(frames.ChannelClosed):
            async with asyncio.timeout(SECONDS):
                await receiving

    with other_end, asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())
