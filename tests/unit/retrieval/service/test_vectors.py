"""Searching by vectors: queries are encoded together, by the encoder of the index."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from starlette.testclient import TestClient

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.encoder.errors import EncoderTimeout, EncoderUnusable
from services.retrieval.encoder.specification import (
    Backend,
    EncoderDescription,
    TextKind,
)
from services.retrieval.engine.encoders import EncoderClients
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index
from tests.unit.retrieval.service.conftest import PASSAGES, Serve

DIMENSION = 16


def vector(text: str) -> NDArray[np.float32]:
    """Equal texts have equal vectors, others point elsewhere."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    made = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made), dtype=np.float32)


class Encoder:
    """A stand-in for an encoder process."""

    def __init__(self, fingerprint: str = "the one") -> None:
        self.calls: list[tuple[TextKind, list[str]]] = []
        self.failure: Exception | None = None
        self._fingerprint = fingerprint

    async def describe(self, *, deadline: float) -> EncoderDescription:
        return description(self._fingerprint)

    async def encode(
        self, texts: Sequence[str], kind: TextKind, *, deadline: float
    ) -> NDArray[np.float32]:
        self.calls.append((kind, list(texts)))
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return np.stack([vector(text) for text in texts])

    async def score(
        self, query: str, passages: Sequence[str], *, deadline: float
    ) -> NDArray[np.float32]:
        """The shortest passage is the best."""
        return np.array([-len(passage) for passage in passages], dtype=np.float32)

    async def close(self) -> None: ...


def description(fingerprint: str) -> EncoderDescription:
    return EncoderDescription(
        model="stand-in",
        fingerprint=fingerprint,
        dimension=DIMENSION,
        query_prefix="",
        passage_prefix="",
        max_tokens=256,
        backend=Backend.ONNX,
        device="cpu",
    )


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Encoder:
    """The encoder of every index."""
    encoder = Encoder()

    async def client(_clients: EncoderClients, _description: object) -> Any:
        return encoder

    monkeypatch.setattr(EncoderClients, "client", client)
    return encoder


@pytest.fixture
def hybrid(indexes: IndexStore, serve: Serve, encoder: Encoder) -> TestClient:
    """A service over an index of words and vectors."""
    vectors = np.stack([vector(each.contents) for each in PASSAGES])
    build_index(indexes, "hybrid", PASSAGES, mode=IndexMode.HYBRID, vectors=vectors)
    return serve(retrieval_index="hybrid")


def search(client: TestClient, **body: object) -> list[list[dict[str, Any]]]:
    answer = client.post("/v1/search", json=body)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["document"]["id"] for hit in hits]


def test_the_nearest_passage_is_found_for_each_query(hybrid: TestClient, encoder: Encoder) -> None:
    queries = [passage.contents for passage in PASSAGES]

    found = search(hybrid, query=queries, mode="dense", topk=1)

    assert [ids(hits) for hits in found] == [[passage.id] for passage in PASSAGES]
    assert encoder.calls == [(TextKind.QUERY, queries)]
    assert found[0][0]["score"] == pytest.approx(1.0, abs=1e-3)


def test_a_hybrid_search_reports_each_ranking(hybrid: TestClient) -> None:
    (hits,) = search(hybrid, query=PASSAGES[0].contents, topk=2)

    assert ids(hits)[0] == PASSAGES[0].id
    modes = {part["mode"]: part["rank"] for part in hits[0]["parts"]}
    assert modes == {"bm25": 1, "dense": 1}


def test_bm25_needs_no_encoder(hybrid: TestClient, encoder: Encoder) -> None:
    assert ids(search(hybrid, query="sorted", mode="bm25")[0]) == ["lists"]
    assert encoder.calls == []


def test_the_default_mode_is_a_setting(hybrid: TestClient, serve: Serve, encoder: Encoder) -> None:
    client = serve(retrieval_index="hybrid", retrieval_mode="bm25")

    answer = client.post("/retrieve", json={"queries": ["sorted"]})

    assert [hit["id"] for hit in answer.json()["result"][0]] == ["lists"]
    assert encoder.calls == []


def test_added_documents_are_encoded_as_passages(hybrid: TestClient, encoder: Encoder) -> None:
    row = {"id": "t", "contents": "A tuple does not change."}
    answer = hybrid.post("/v1/indexes/hybrid/documents", json={"documents": [row]})
    assert answer.status_code == 200, answer.text
    assert encoder.calls == [(TextKind.PASSAGE, [row["contents"]])]

    found = search(hybrid, query=row["contents"], mode="dense", topk=1)

    assert ids(found[0]) == ["t"]


def test_reranking_reorders_the_best_passages(hybrid: TestClient) -> None:
    plain = ids(search(hybrid, query="closed", mode="bm25")[0])
    reranked = search(hybrid, query="closed", mode="bm25", rerank=True, topk=1)

    assert set(plain) == {"files", "sockets"}
    assert ids(reranked[0]) == ["files"]  # the shorter one


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (EncoderTimeout("too late"), 504, "encoder_timeout"),
        (EncoderUnusable("no such model"), 503, "encoder_unusable"),
    ],
)
def test_encoder_problems_are_reported(
    hybrid: TestClient, encoder: Encoder, failure: Exception, status: int, code: str
) -> None:
    encoder.failure = failure

    answer = hybrid.post("/v1/search", json={"query": "list", "mode": "dense"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert ids(search(hybrid, query="sorted", mode="bm25")[0]) == ["lists"]
