"""The channel to a notebook's driver."""

import asyncio
import socket

import pytest
import uvloop

from services.sandbox.guest.frames import ChannelClosed
from services.sandbox.sessions.driver import DriverChannel


def test_sending_over_a_closed_channel_raises_channel_closed() -> None:
    async def run() -> None:
        own, driver = socket.socketpair()
        with driver:
            channel = await DriverChannel.over(own, 1000)
            await channel.close()
            with pytest.raises(ChannelClosed):
                await channel.send({"type": "end"})

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # that of the service
        runner.run(run())
