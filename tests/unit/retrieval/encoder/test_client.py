"""A client and its server in one event loop, over a real socket."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from services.retrieval.encoder.child.queue import TaskQueue
from services.retrieval.encoder.child.server import Server
from services.retrieval.encoder.child.workers import Workers
from services.retrieval.encoder.client import EncoderClient
from services.retrieval.encoder.errors import (
    EncoderTimeout,
    EncoderUnavailable,
    EncoderUnusable,
)
from services.retrieval.encoder.models.encoder import Encoder
from services.retrieval.encoder.specification import EncoderDescription, TextKind
from tests.support.search.encoder_child import DIMENSION, LetterCounts, letter_encoder, letters

WAIT = 30.0


@asynccontextmanager
async def serving(socket: Path, encoder: Encoder) -> AsyncIterator[None]:
    waiting = TaskQueue(1000)
    loaded: asyncio.Future[EncoderDescription] = asyncio.get_running_loop().create_future()
    loaded.set_result(encoder.description)
    workers = Workers(encoder, waiting)
    server = Server(waiting, loaded, workers.busy_seconds)
    writers = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await server.connected(reader, writer)

    listening = await asyncio.start_unix_server(connected, socket)
    try:
        yield
    finally:
        waiting.fail(EncoderUnavailable("the test is over"))
        listening.close()
        for writer in writers:
            writer.close()


def with_client(
    socket: Path, encoder: Encoder, use: Callable[[EncoderClient], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with serving(socket, encoder), EncoderClient(socket) as client:
            await use(client)

    asyncio.run(run())


def later(seconds: float = WAIT) -> float:
    return time.monotonic() + seconds


@pytest.fixture
def model() -> LetterCounts:
    return LetterCounts()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "socket"


def test_vectors_keep_the_order_of_the_texts(socket: Path, model: LetterCounts) -> None:
    texts = [f"{n:b}".translate({48: "a", 49: "b"}) * 5 for n in range(1200)]

    async def use(client: EncoderClient) -> None:
        vectors = await client.encode(texts, TextKind.PASSAGE, deadline=later())

        assert vectors.dtype == np.float32
        np.testing.assert_array_equal(vectors, np.stack([letters(f"p:{text}") for text in texts]))

    with_client(socket, letter_encoder(model, concurrency=2), use)


def test_no_texts_have_no_vectors(socket: Path, model: LetterCounts) -> None:
    async def use(client: EncoderClient) -> None:
        assert (await client.encode([], TextKind.QUERY, deadline=later())).shape == (0, DIMENSION)
        assert (await client.score("query", [], deadline=later())).shape == (0,)

    with_client(socket, letter_encoder(model), use)


def test_waiting_calls_share_a_batch(socket: Path, model: LetterCounts) -> None:
    async def use(client: EncoderClient) -> None:
        model.gate.clear()
        calls = [asyncio.create_task(encoded(client, "first"))]
        await asyncio.to_thread(model.began.wait, WAIT)
        calls += [asyncio.create_task(encoded(client, f"text {n}")) for n in range(20)]
        await client.busy_seconds(deadline=later())  # it was sent behind them, and so they wait
        model.gate.set()
        await asyncio.gather(*calls)

        assert [len(batch) for batch in model.batches] == [1, 20]

    with_client(socket, letter_encoder(model), use)


def test_a_cancelled_call_is_not_computed(socket: Path, model: LetterCounts) -> None:
    async def use(client: EncoderClient) -> None:
        model.gate.clear()
        first = asyncio.create_task(encoded(client, "first"))
        await asyncio.to_thread(model.began.wait, WAIT)
        gone = asyncio.create_task(encoded(client, "gone"))
        await client.busy_seconds(deadline=later())
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await client.busy_seconds(deadline=later())
        model.gate.set()
        await first
        await encoded(client, "last")

        assert model.batches == [["q:first"], ["q:last"]]

    with_client(socket, letter_encoder(model), use)


def test_texts_of_a_disconnected_client_are_not_computed(socket: Path, model: LetterCounts) -> None:
    async def use(client: EncoderClient) -> None:
        model.gate.clear()
        first = asyncio.create_task(encoded(client, "first"))
        await asyncio.to_thread(model.began.wait, WAIT)
        other = EncoderClient(socket)
        gone = asyncio.create_task(encoded(other, "gone"))
        await other.busy_seconds(deadline=later())
        await other.close()
        with pytest.raises(EncoderUnavailable):
            await gone
        await client.busy_seconds(deadline=later())
        model.gate.set()
        await first
        await encoded(client, "last")

        assert model.batches == [["q:first"], ["q:last"]]

    with_client(socket, letter_encoder(model), use)


def test_a_call_ends_at_its_deadline(socket: Path, model: LetterCounts) -> None:
    async def use(client: EncoderClient) -> None:
        await client.describe(deadline=later())
        model.gate.clear()
        for seconds in (0.05, 1.0, 20.0):
            with pytest.raises(EncoderTimeout):
                await client.encode(["text"], TextKind.QUERY, deadline=later(seconds))
            if model.began.is_set():  # what comes too late, to a busy machine, is not computed
                break
        assert await client.busy_seconds(deadline=later()) > 0
        model.gate.set()

    with_client(socket, letter_encoder(model), use)


def test_a_failed_batch_reports_why_and_the_next_succeeds(
    socket: Path, model: LetterCounts
) -> None:
    async def use(client: EncoderClient) -> None:
        with pytest.raises(EncoderUnavailable, match="no vector for it"):
            await encoded(client, "please fail")
        await encoded(client, "fine")

    with_client(socket, letter_encoder(model), use)


def test_without_a_reranker_the_score_is_the_cosine(socket: Path, model: LetterCounts) -> None:
    passages = [f"{'ab' * n}c" for n in range(700)]

    async def use(client: EncoderClient) -> None:
        scores = await client.score("abc", passages, deadline=later())

        expected = [float(letters("q:abc") @ letters(f"p:{text}")) for text in passages]
        np.testing.assert_allclose(scores, expected, rtol=1e-5)

    with_client(socket, letter_encoder(model, concurrency=2), use)


def test_a_reranker_scores_query_passage_pairs(socket: Path, model: LetterCounts) -> None:
    passages = ["x" * n for n in range(700)]

    async def use(client: EncoderClient) -> None:
        scores = await client.score("four", passages, deadline=later())

        np.testing.assert_allclose(scores, [n + 0.04 for n in range(700)], rtol=1e-5)

    with_client(socket, letter_encoder(model, reranker=True), use)


def test_a_lost_connection_is_reopened(socket: Path, model: LetterCounts) -> None:
    async def run() -> None:
        client = EncoderClient(socket)
        async with serving(socket, letter_encoder(model)):
            await encoded(client, "before")
        waiting = asyncio.create_task(encoded(client, "while there is none"))
        async with serving(socket, letter_encoder(model)):
            await waiting
            await client.close()

    asyncio.run(run())


def test_a_missing_listener_is_reported(socket: Path) -> None:
    async def run() -> None:
        with pytest.raises(EncoderUnavailable, match="socket"):
            await EncoderClient(socket).describe(deadline=later(0.2))

    asyncio.run(run())


def test_an_unloadable_model_is_reported_to_every_request(socket: Path) -> None:
    async def run() -> None:
        waiting = TaskQueue(1000)
        loaded: asyncio.Future[EncoderDescription] = asyncio.get_running_loop().create_future()
        server = Server(waiting, loaded, lambda: 0.0)
        listening = await asyncio.start_unix_server(server.connected, socket)
        async with EncoderClient(socket) as client:
            early = asyncio.create_task(encoded(client, "early"))
            await client.busy_seconds(deadline=later())
            error = EncoderUnusable("no config.json")
            loaded.set_exception(error)
            waiting.fail(error)
            for call in (early, encoded(client, "late"), client.describe(deadline=later())):
                with pytest.raises(EncoderUnusable, match=r"no config\.json"):
                    await call
        listening.close()

    asyncio.run(run())


async def encoded(client: EncoderClient, text: str) -> None:
    vectors = await client.encode([text], TextKind.QUERY, deadline=later())
    np.testing.assert_array_equal(vectors[0], letters(f"q:{text}"))
