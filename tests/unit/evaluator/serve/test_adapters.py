"""Adapters are loaded when asked for; the least recently used one leaves."""

import asyncio
import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.evaluator.serve.adapters import Adapters, AdapterTooLarge
from services.inference.relay_protocol import ServedAdapter
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.launch import AdapterSlots

TWO = AdapterSlots(rank=8, count=2)


class Loader:
    """Records what is loaded; ``broken`` names are rejected."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.loaded: list[tuple[Path, str]] = []
        self.broken: set[str] = set()
        self.gate: asyncio.Event | None = None

    async def load_adapter(self, name: str, folder: Path) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if name in self.broken:
            raise EngineFailed("not an adapter of this model")
        self.calls.append(f"+{name}")
        self.loaded.append((folder, (folder / "adapter_model.safetensors").read_text()))

    async def unload_adapter(self, name: str) -> None:
        self.calls.append(f"-{name}")


def adapter(folder: Path, name: str, rank: int = 8) -> ServedAdapter:
    path = folder / name
    path.mkdir(exist_ok=True)
    config, weights = path / "adapter_config.json", path / "adapter_model.safetensors"
    if not config.exists():
        config.write_text(json.dumps({"r": rank}))
        weights.write_text("first")
    return ServedAdapter(name=name, path=path)


def test_the_least_recently_used_adapter_makes_room(tmp_path: Path) -> None:
    async def run() -> list[str]:
        loader = Loader()
        adapters = Adapters(loader, TWO, tmp_path / "links")
        for name in ("a", "b", "a", "c"):
            async with adapters.using(adapter(tmp_path, name)):
                pass
        assert adapters.names == ["a", "c"]
        return loader.calls

    assert asyncio.run(run()) == ["+a", "+b", "-b", "+c"]


def test_an_adapter_whose_files_have_changed_is_loaded_again_from_another_path(
    tmp_path: Path,
) -> None:
    async def run() -> Loader:
        loader = Loader()
        adapters = Adapters(loader, TWO, tmp_path / "links")
        for contents in ("first", "second", "second"):
            weights = adapter(tmp_path, "a").path / "adapter_model.safetensors"
            if weights.read_text() != contents:
                weights.unlink()
                weights.write_text(contents)
            async with adapters.using(adapter(tmp_path, "a")):
                pass
        return loader

    loader = asyncio.run(run())

    assert loader.calls == ["+a", "-a", "+a"]
    (before, first), (after, second) = loader.loaded
    assert (first, second) == ("first", "second")
    assert before != after


def test_an_adapter_in_use_stays_until_its_requests_end(tmp_path: Path) -> None:
    async def run() -> list[str]:
        loader = Loader()
        adapters = Adapters(loader, AdapterSlots(rank=8, count=1), tmp_path / "links")
        used = asyncio.Event()

        async def ask_for_another() -> None:
            async with adapters.using(adapter(tmp_path, "b")):
                used.set()

        async with adapters.using(adapter(tmp_path, "a")):
            waiting = asyncio.create_task(ask_for_another())
            await asyncio.sleep(0)
            assert loader.calls == ["+a"]
            assert not used.is_set()
        await waiting
        return loader.calls

    assert asyncio.run(run()) == ["+a", "-a", "+b"]


def test_requests_that_come_together_load_an_adapter_once(tmp_path: Path) -> None:
    async def run() -> list[str]:
        loader = Loader()
        adapters = Adapters(loader, TWO, tmp_path / "links")

        async def ask() -> None:
            async with adapters.using(adapter(tmp_path, "a")):
                await asyncio.sleep(0)

        await asyncio.gather(*(ask() for _ in range(8)))
        return loader.calls

    assert asyncio.run(run()) == ["+a"]


def test_a_request_cancelled_while_its_adapter_loads_leaves_it_known(tmp_path: Path) -> None:
    async def run() -> list[str]:
        loader = Loader()
        loader.gate = asyncio.Event()
        adapters = Adapters(loader, TWO, tmp_path / "links")

        async def ask() -> None:
            async with adapters.using(adapter(tmp_path, "a")):
                pass

        asked = asyncio.create_task(ask())
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.sleep(0)
        loader.gate.set()
        await asyncio.gather(asked, return_exceptions=True)
        await ask()
        return loader.calls

    assert asyncio.run(run()) == ["+a"]


def test_what_the_engine_cannot_hold_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        loader = Loader()
        loader.broken.add("broken")
        adapters = Adapters(loader, TWO, tmp_path / "links")
        with pytest.raises(AdapterTooLarge):
            async with adapters.using(adapter(tmp_path, "large", rank=16)):
                pass
        with pytest.raises(AdapterTooLarge):
            async with Adapters(loader, None, tmp_path / "links").using(adapter(tmp_path, "a")):
                pass
        with pytest.raises(InvalidRequest, match="not a LoRA adapter"):
            async with adapters.using(ServedAdapter(name="gone", path=tmp_path / "gone")):
                pass
        with pytest.raises(EngineFailed):
            async with adapters.using(adapter(tmp_path, "broken")):
                pass
        assert adapters.names == []

    asyncio.run(run())
