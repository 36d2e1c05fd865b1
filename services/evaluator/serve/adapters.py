"""The adapters that an engine holds: loaded when they are asked for, the least recently used
unloaded for a new one, and loaded again once their files have changed."""

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from services.contracts.errors import Unavailable
from services.core.artifacts import ADAPTER_CONFIG, adapter_rank
from services.inference.relay_protocol import ServedAdapter
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.launch import AdapterSlots

WAIT_SECONDS = 120.0
"""Longest wait for a request to end that uses one of the adapters in the way."""
WEIGHTS = "adapter_model."


class AdapterLoader(Protocol):
    """The engine's calls, which raise `EngineFailed`."""

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under a new name."""

    async def unload_adapter(self, name: str) -> None:
        """Stop serving an adapter."""


class AdapterTooLarge(Exception):
    """The engine was started without room for an adapter of this rank."""


@dataclass
class _Loaded:
    link: Path
    users: int = 0


class Adapters:
    """The adapters of one engine, at most ``slots.count`` at once; None: it takes none.

    ``links`` is a folder for a link to each, named by what its files are. The engine loads the
    link, as it would go on with what it has cached of a name and a path when their files change.
    """

    def __init__(self, engine: AdapterLoader, slots: AdapterSlots | None, links: Path) -> None:
        self._engine = engine
        self._slots = slots
        self._links = links.absolute()
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()  # least recently used first
        self._changed = asyncio.Condition()

    @property
    def names(self) -> list[str]:
        """The loaded adapters, least recently used first."""
        return list(self._loaded)

    @asynccontextmanager
    async def using(self, adapter: ServedAdapter | None) -> AsyncIterator[None]:
        """Keep an adapter loaded inside the block; None asks for the model itself.

        Raises `AdapterTooLarge`, `InvalidRequest` for a folder without an adapter, `EngineFailed`,
        and `Unavailable` while all slots are in use.
        """
        if adapter is None:
            yield
            return
        used = await self._acquire(adapter)
        try:
            yield
        finally:
            used.users -= 1
            async with self._changed:
                self._changed.notify_all()

    async def _acquire(self, adapter: ServedAdapter) -> _Loaded:
        try:
            async with asyncio.timeout(WAIT_SECONDS), self._changed:
                while (loaded := await self._try(adapter)) is None:
                    await self._changed.wait()
                return loaded
        except TimeoutError:
            message = f"no slot for the adapter {adapter.name!r}: all are answering requests"
            raise Unavailable(message, code="adapters_in_use") from None

    async def _try(self, adapter: ServedAdapter) -> _Loaded | None:
        """The adapter, loaded and in use; None when one that is in use is in the way."""
        loaded = self._loaded.get(adapter.name)
        link = self._links / _version(adapter)
        if loaded is None or loaded.link != link:
            if not self._make_room(adapter, loaded):
                return None
            loaded = await _to_its_end(self._load(adapter, link))
        loaded.users += 1
        self._loaded.move_to_end(adapter.name)
        return loaded

    def _make_room(self, adapter: ServedAdapter, outdated: _Loaded | None) -> bool:
        """Whether the adapter can be loaded now."""
        if self._slots is None or adapter_rank(adapter.path) > self._slots.rank:
            raise AdapterTooLarge
        if outdated is not None:
            return not outdated.users
        full = len(self._loaded) >= self._slots.count
        return not full or any(not each.users for each in self._loaded.values())

    async def _load(self, adapter: ServedAdapter, link: Path) -> _Loaded:
        assert self._slots is not None  # noqa: S101 - there is room
        if adapter.name in self._loaded:
            await self._unload(adapter.name)
        elif len(self._loaded) >= self._slots.count:
            await self._unload(next(name for name, each in self._loaded.items() if not each.users))
        _make_link(link, adapter.path)
        await self._engine.load_adapter(adapter.name, link)
        self._loaded[adapter.name] = loaded = _Loaded(link)
        return loaded

    async def _unload(self, name: str) -> None:
        await self._engine.unload_adapter(name)
        self._loaded.pop(name).link.unlink(missing_ok=True)


def _make_link(link: Path, target: Path) -> None:
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target.resolve())


def _version(adapter: ServedAdapter) -> str:
    """A name for an adapter's files, which is another one after any of them was written."""
    files = []
    with suppress(OSError), os.scandir(adapter.path) as entries:
        for entry in entries:
            if entry.name == ADAPTER_CONFIG or entry.name.startswith(WEIGHTS):
                is_now = entry.stat()
                files.append((entry.name, is_now.st_ino, is_now.st_size, is_now.st_ctime_ns))
    described = repr((adapter.name, str(adapter.path), sorted(files)))
    return hashlib.sha256(described.encode()).hexdigest()[:32]


async def _to_its_end(change: Coroutine[Any, Any, _Loaded]) -> _Loaded:
    """Finish a change of the engine even when its request is cancelled meanwhile, so that what is
    loaded stays known."""
    task = asyncio.ensure_future(change)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(EngineFailed):
            await task
        raise
