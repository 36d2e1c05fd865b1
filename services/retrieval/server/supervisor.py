"""Several processes behind one port: a parent that holds the sockets, the servers and encoders."""

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
from services.core.web.serving import SHUTDOWN_SECONDS, Address, bind
from services.retrieval.default_index.building import default_index_built
from services.retrieval.engine.encoders import EncoderPool
from services.retrieval.server.ipc import BuiltMark, encoders_told
from services.retrieval.settings import RetrievalSettings

logger = logging.getLogger(__name__)

MOST_DEATHS = 5
WITHIN_SECONDS = 60.0
RESTART_SECONDS = 0.5
END_SECONDS = SHUTDOWN_SECONDS + 10

Sockets = Sequence[socket.socket]


def serve_by_many(settings: RetrievalSettings, address: Address) -> None:
    """Answer with as many processes as the settings say, until a signal ends this one.

    Raises `ConfigurationError` when servers die all the time.
    """
    # All take connections from the same sockets: none waits for a server that is just starting.
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
    built = BuiltMark(folder)
    async with (
        encoders_told(folder, pool.socket_of),
        default_index_built(settings.indexes_folder, settings.retrieval_index, built),
    ):
        numbers = range(settings.retrieval_processes)
        await _until(stop, [_kept_running(number, sockets, folder) for number in numbers])


async def _until(stop: asyncio.Event, work: Sequence[Coroutine[None, None, None]]) -> None:
    """Do the work until told to stop; what raises ends the rest."""
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


async def _kept_running(number: int, sockets: Sockets, folder: Path) -> None:
    """Run a server, and its successor when it dies; raises `ConfigurationError` after too many."""
    deaths: deque[float] = deque(maxlen=MOST_DEATHS)
    while True:
        server = await _start(number, sockets, folder)
        try:
            status = await server.wait()
        finally:
            await _end(server)
        now = time.monotonic()
        if len(deaths) == MOST_DEATHS and now - deaths[0] < WITHIN_SECONDS:
            raise ConfigurationError(
                f"server {number} died {MOST_DEATHS + 1} times within {WITHIN_SECONDS:g} s"
            )
        deaths.append(now)
        logger.error("server %d ended with %d; it is started again", number, status)
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
    """Ask a server that runs to end, and kill it when it does not."""
    if server.returncode is not None:
        return
    server.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await server.wait()
    except TimeoutError:
        server.kill()
        await server.wait()
