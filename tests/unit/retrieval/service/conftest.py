"""The service in this process, over real indexes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from services.retrieval.app import create_retrieval
from services.retrieval.engine.engine import SearchEngine
from services.retrieval.settings import RetrievalSettings
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage

PASSAGES = [
    passage("lists", "A list is sorted in place by its method sort.", "Lists", year=2001),
    passage("files", "A file is closed by the statement with.", "Files", year=2003),
    passage("sockets", "A socket is closed by its method close.", "Sockets", year=2003),
    passage("日本", "東京は日本の首都です。", "東京", year=2020),
]

Serve = Callable[..., TestClient]


@pytest.fixture
def indexes(tmp_path: Path) -> IndexStore:
    """A store with the index ``main``."""
    store = IndexStore(tmp_path / "indexes")
    build_index(store, "main", PASSAGES)
    return store


@pytest.fixture
def serve(indexes: IndexStore, tmp_path: Path) -> Iterator[Serve]:
    """Starts services of these indexes, with the settings it is given."""
    with ExitStack() as running:

        def start(**settings: object) -> TestClient:
            chosen = {"home": tmp_path, "retrieval_index": "main", **settings}
            engine = SearchEngine(RetrievalSettings.model_validate(chosen), _no_encoder)
            app = create_retrieval(engine.settings, engine, CollectorRegistry())
            client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
            running.enter_context(client)
            return client

        yield start


@pytest.fixture
def client(serve: Serve) -> TestClient:
    """A service with the default settings."""
    return serve()


async def _no_encoder(_specification: object) -> Path:
    raise AssertionError("an index of words needs no encoder")
