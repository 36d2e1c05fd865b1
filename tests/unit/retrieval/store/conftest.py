"""Stores of indexes for tests."""

from pathlib import Path

import pytest

from services.retrieval.store.store import IndexStore


@pytest.fixture
def store(tmp_path: Path) -> IndexStore:
    """An empty store."""
    return IndexStore(tmp_path / "indexes")
