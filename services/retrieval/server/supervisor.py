"""Supervises several server processes behind one port; owns the sockets and the encoders."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Coroutine, Sequence
from pathlib import Path

from services.contracts.errors import ConfigurationError
from services.core.process.tree import kill_tree
from services.core.web.serving import SHUTDOWN_SECONDS, Address, bind
from services.retrieval.default_index.building import building_default_index
from services.retrieval.engine.encoders import EncoderPool
from services.retrieval.server.ipc import BuiltFlag, serve_encoder_lookups
from services.retrieval.settings import RetrievalSettings

logger = logging.getLogger(__name__)

MAX_DEATHS = 5
WITHIN_SECONDS = 60.0
RESTART_SECONDS = 0.5
END_SECONDS = SHUTDOWN_SECONDS + 10

Sockets = Sequence[socket.socket]


def serve_with_processes(settings: RetrievalSettings, address: Address) -> None:
    """Serve with the configured number of processes until a signal.

    Raises `ConfigurationError` when servers keep crashing.
    """
    # All servers accept on the same sockets, so no connection waits for one that is starting.
    sockets = bind(address)
    with (
        tempfile.TemporaryDirectory(prefix="temper-retrieval-") as folder,
        contextlib.closing(EncoderPool(settings.runtimes_folder, settings.home / "logs")) as pool,
    ):
        asyncio.run(_parent(settings, sockets, Path(folder), pool))


async def _parent(
    settings: RetrievalSettings, sockets: Sockets, folder: Path, pool: EncoderPool
) -> None:
    stop = asyncio.Event()
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, stop.set)
    built = BuiltFlag(folder)
    async with (
        serve_encoder_lookups(folder, pool.socket_of),
        building_default_index(settings.indexes_folder, settings.retrieval_index, built),
    ):
        numbers = range(settings.retrieval_processes)
        await _until(stop, [_keep_running(number, sockets, folder) for number in numbers])


async def _until(stop: asyncio.Event, work: Sequence[Coroutine[None, None, None]]) -> None:
    """Run the coroutines until ``stop`` is set; an exception ends them all."""
    stopping = asyncio.create_task(stop.wait())
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait((stopping, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)


async def _keep_running(number: int, sockets: Sockets, folder: Path) -> None:
    """Run a server and restart it when it dies; raises `ConfigurationError` if it keeps dying."""
    deaths: deque[float] = deque(maxlen=MAX_DEATHS)
    while True:
        server = await _start(number, sockets, folder)
        try:
            status = await server.wait()
        finally:
            await _end(server)
        now = time.monotonic()
        if len(deaths) == MAX_DEATHS and now - deaths[0] < WITHIN_SECONDS:
            raise ConfigurationError(
                f"server {number} died {MAX_DEATHS + 1} times within {WITHIN_SECONDS:g} s"
            )
        deaths.append(now)
        logger.error("server %d exited with %d; restarting it", number, status)
        await asyncio.sleep(RESTART_SECONDS)


async def _start(number: int, sockets: Sockets, folder: Path) -> Process:
    descriptors = [each.fileno() for each in sockets]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "services.retrieval.server.server"),
        *("--number", str(number), "--folder", str(folder), "--parent", str(os.getpid())),
        *("--sockets", *map(str, descriptors)),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=descriptors,
    )


async def _end(server: Process) -> None:
    """Terminate a running server, and kill it if it does not exit in time."""
    if server.returncode is not None:
        return
    server.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await server.wait()
    except TimeoutError:
        kill_tree(server.pid)
        await server.wait()
