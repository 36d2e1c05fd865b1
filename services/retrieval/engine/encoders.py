"""The encoders of a service: one process for each model that its indexes were made with."""

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
"""Where an encoder listens; it is started when nobody has asked for it before."""


class EncoderPool:
    """The encoder processes, held by the one process that starts them."""

    def __init__(self, runtimes: Path, logs: Path) -> None:
        self._runtimes = runtimes
        self._logs = logs
        self._processes: dict[EncoderSpecification, EncoderProcess] = {}

    async def socket_of(self, specification: EncoderSpecification) -> Path:
        """Where an encoder listens or is about to; raises `RuntimeMissing`."""
        process = self._processes.get(specification)
        if process is None:
            if len(self._processes) >= MAX_ENCODERS:
                raise Unavailable(f"{MAX_ENCODERS} encoders run already, each of another model")
            self._logs.mkdir(parents=True, exist_ok=True)
            log = self._logs / f"encoder-{len(self._processes)}.log"
            process = EncoderProcess(specification, runtimes=self._runtimes, log=log)
            self._processes[specification] = process.start()
            logger.info("starting an encoder of %s; its log is %s", specification.model, log)
        return process.socket

    def close(self) -> None:
        """End them all."""
        while self._processes:
            self._processes.popitem()[1].close()


class EncoderClients:
    """This process's connections to encoders, made when they are needed."""

    def __init__(self, find_socket: FindSocket, device: str, reranker: str | None) -> None:
        self._find_socket = find_socket
        self._device = device
        self._reranker = reranker
        self._clients: dict[EncoderSpecification, EncoderClient] = {}
        self._lock = asyncio.Lock()

    async def client(self, description: EncoderDescription | None) -> EncoderClient:
        """An encoder like the one described; without one, the encoder that is built in.

        Raises `Unavailable` when there is none to be had.
        """
        asked = description.specification() if description else EncoderSpecification()
        specification = asked.model_copy(
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
    """Raise `Unavailable` when an encoder's vectors are not those of an index."""
    found = await client.describe(deadline=deadline)
    try:
        found.checked_against(description)
    except ConfigurationError as error:
        raise Unavailable(error.message, code=error.code) from error


CANDIDATES = 50
"""How many of a query's passages are looked at again, unless more are asked for."""


async def reranked(
    encoder: EncoderClient,
    queries: Sequence[str],
    hits: Sequence[Sequence[Hit]],
    deadline: float,
) -> list[list[Hit]]:
    """The hits of each query with the encoder's scores, best first; equal ones keep their order.

    Raises `Unavailable` when the encoder is not to be had, and what it raises.
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
