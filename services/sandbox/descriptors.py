"""Waiting for descriptors in the event loop."""

import asyncio
import socket


async def readable(waiting: socket.socket | int) -> None:
    """Wait until a socket or another descriptor has something to read."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(waiting, resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(waiting)


def resolve(ready: "asyncio.Future[None]") -> None:
    """Have who awaits this go on; it may have given up meanwhile."""
    if not ready.done():
        ready.set_result(None)
