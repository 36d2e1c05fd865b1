"""Main loop of the encoder process: listen, load the model, answer until SIGTERM."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from services.retrieval.encoder.child.queue import TaskQueue
from services.retrieval.encoder.child.server import Server
from services.retrieval.encoder.child.workers import Workers
from services.retrieval.encoder.errors import EncoderUnusable
from services.retrieval.encoder.models.configuration import ModelUnusable
from services.retrieval.encoder.models.encoder import Encoder
from services.retrieval.encoder.specification import EncoderDescription, EncoderSpecification

logger = logging.getLogger(__name__)

Load = Callable[[EncoderSpecification], Encoder]
"""Loads a model; raises `ModelUnusable`."""

CHARACTERS_A_TOKEN = 8
"""Upper bound for characters per token, used to estimate the cost of a text."""


class EncoderChild:
    """Wires the server, the queue and the workers together."""

    def __init__(self, specification: EncoderSpecification, load: Load) -> None:
        self._specification = specification
        self._load_encoder = load
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[EncoderDescription] = self._loop.create_future()
        self._waiting = TaskQueue(specification.max_tokens * CHARACTERS_A_TOKEN)
        self._workers: Workers | None = None

    async def run(self, socket: Path) -> None:
        """Serve until SIGTERM."""
        ended = asyncio.Event()
        self._loop.add_signal_handler(signal.SIGTERM, ended.set)
        server = Server(self._waiting, self._loaded, self._busy_seconds)
        listening = await asyncio.start_unix_server(server.connected, socket)
        threading.Thread(target=self._load, daemon=True).start()
        await ended.wait()
        listening.close()

    def _load(self) -> None:
        try:
            encoder = self._load_encoder(self._specification)
        except Exception as error:  # libraries raise anything here
            if not isinstance(error, ModelUnusable):
                logger.exception("the model could not be loaded")
            reason = f"the encoder {self._specification.model!r} cannot be used: {error}"
            unusable = EncoderUnusable(reason)
            self._loop.call_soon_threadsafe(self._loaded.set_exception, unusable)
            self._waiting.fail(unusable)
            return
        self._loop.call_soon_threadsafe(self._loaded.set_result, encoder.description)
        self._workers = Workers(encoder, self._waiting)

    def _busy_seconds(self) -> float:
        return self._workers.busy_seconds() if self._workers is not None else 0.0


def run(socket: Path, specification: EncoderSpecification, load: Load) -> None:
    """Run an encoder until SIGTERM, then exit the process.

    Listens immediately and answers once the model is loaded; if loading fails, every request gets
    the reason.
    """

    async def serve() -> None:
        await EncoderChild(specification, load).run(socket)

    socket.unlink(missing_ok=True)  # left behind by a killed process
    asyncio.run(serve())
    socket.unlink(missing_ok=True)
    with suppress(OSError):  # the owner may have died
        socket.parent.rmdir()
    os._exit(0)  # a regular exit crashes library threads that are still computing
