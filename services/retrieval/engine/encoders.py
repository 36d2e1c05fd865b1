"""Encoder processes and clients, one per model used by the indexes, and reranking."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from services.contracts.errors import ConfigurationError, TemperError, Unavailable
from services.retrieval.encoder.client import EncoderClient
from services.retrieval.encoder.process import EncoderProcess
from services.retrieval.encoder.specification import EncoderDescription, EncoderSpecification
from services.retrieval.store.query import Hit

logger = logging.getLogger(__name__)

MAX_ENCODERS = 8

FindSocket = Callable[[EncoderSpecification], Awaitable[Path]]
"""Finds an encoder's socket, starting the encoder on first use."""


class EncoderPool:
    """The encoder processes, owned by the one process that starts them."""

    def __init__(self, runtimes: Path, logs: Path) -> None:
        self._runtimes = runtimes
        self._logs = logs
        self._processes: dict[EncoderSpecification, EncoderProcess] = {}

    async def socket_of(self, specification: EncoderSpecification) -> Path:
        """The socket of an encoder, started on first use; raises `RuntimeMissing`."""
        process = self._processes.get(specification)
        if process is None:
            if len(self._processes) >= MAX_ENCODERS:
                raise Unavailable(
                    f"{MAX_ENCODERS} encoders of different models are already running"
                )
            self._logs.mkdir(parents=True, exist_ok=True)
            log = self._logs / f"encoder-{len(self._processes)}.log"
            process = EncoderProcess(specification, runtimes=self._runtimes, log=log)
            self._processes[specification] = process.start()
            logger.info("starting an encoder of %s; its log is %s", specification.model, log)
        return process.socket

    def close(self) -> None:
        """Stop all encoders."""
        while self._processes:
            self._processes.popitem()[1].close()


class EncoderClients:
    """This process's connections to encoders, opened on demand."""

    def __init__(self, find_socket: FindSocket, device: str, reranker: str | None) -> None:
        self._find_socket = find_socket
        self._device = device
        self._reranker = reranker
        self._clients: dict[EncoderSpecification, EncoderClient] = {}
        self._lock = asyncio.Lock()

    async def client(self, description: EncoderDescription | None) -> EncoderClient:
        """A client of the described encoder, or of the built-in one.

        Raises `Unavailable` when the encoder cannot be started.
        """
        requested = description.specification() if description else EncoderSpecification()
        specification = requested.model_copy(
            update={"device": self._device, "reranker": self._reranker}
        )
        async with self._lock:
            client = self._clients.get(specification)
            if client is None:
                try:
                    client = EncoderClient(await self._find_socket(specification))
                except TemperError as error:
                    raise Unavailable(error.message, code=error.code) from error
                self._clients[specification] = client
        return client

    async def close(self) -> None:
        """Close the connections."""
        while self._clients:
            await self._clients.popitem()[1].close()


async def check_same(
    client: EncoderClient, description: EncoderDescription, deadline: float
) -> None:
    """Raise `Unavailable` when an encoder's vectors do not match an index's."""
    found = await client.describe(deadline=deadline)
    try:
        found.require_same_vectors(description)
    except ConfigurationError as error:
        raise Unavailable(error.message, code=error.code) from error


CANDIDATES = 50
"""Number of candidates per query to rerank, unless more are requested."""


async def reranked(
    encoder: EncoderClient,
    queries: Sequence[str],
    hits: Sequence[Sequence[Hit]],
    deadline: float,
) -> list[list[Hit]]:
    """Rerank the hits of each query by the encoder's scores (stable).

    Raises `Unavailable` and what the encoder raises.
    """
    try:
        scores = await asyncio.gather(
            *(
                encoder.score(query, [_contents(hit) for hit in found], deadline=deadline)
                for query, found in zip(queries, hits, strict=True)
            )
        )
    except ConfigurationError as error:
        raise Unavailable(error.message, code=error.code) from error
    return [
        _by_score(found, of_query.tolist()) for found, of_query in zip(hits, scores, strict=True)
    ]


def _contents(hit: Hit) -> str:
    return str(json.loads(hit.document)["contents"])


def _by_score(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    order = sorted(range(len(hits)), key=lambda n: -scores[n])
    return [replace(hits[n], score=scores[n]) for n in order]
