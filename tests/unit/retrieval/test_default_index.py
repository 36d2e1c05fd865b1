"""The background build of the default index."""

import asyncio
from pathlib import Path

import pytest

from services.retrieval.default_index import building


def test_a_builder_that_cannot_be_started_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "missing"))

    async def build() -> None:
        built = asyncio.Event()
        async with building.building_default_index(tmp_path, building.DEFAULT_INDEX, built):
            await asyncio.wait_for(built.wait(), 30)

    asyncio.run(build())
    assert "the default index was not built" in caplog.text
