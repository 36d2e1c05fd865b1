"""Sending weights from the learner's GPU to engines on the same host, without files."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from typing import Any, Protocol

from services.contracts.base import JsonObject
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.control import VllmControl

CHUNK_BYTES = 256 * 2**20
"""Of a packed broadcast: both sides cut at it."""


class Transport(StrEnum):
    """How full weights get from the learner to engines."""

    IPC = "CUDA IPC"
    NCCL = "NCCL"
    FILES = "files"


class SendingLearner(Protocol):
    """A learner whose weights are on a GPU; see `LearnerClient`."""

    @property
    def sends(self) -> bool: ...

    async def send_chunk(self) -> JsonObject | None: ...

    async def end_chunks(self) -> None: ...

    async def describe(self) -> JsonObject: ...

    async def make_group(self) -> str: ...

    async def join_group(self, engine: str, size: int) -> None: ...

    async def broadcast(self, engine: str) -> None: ...


class DirectTransport:
    """Sends a learner's weights to engines by CUDA IPC or NCCL, until that fails once: `works` is
    then false, and files are used. ``tell`` gets a message for the user."""

    def __init__(
        self, learner: SendingLearner, transport: Transport, tell: Callable[[str], None]
    ) -> None:
        self._learner = learner
        self._transport = transport
        self._tell = tell
        self._failed = transport is Transport.FILES
        self._joined: dict[str, VllmControl] = {}
        self.turn = asyncio.Lock()
        """Held for each conversation with the learner, which answers one request at a time."""

    @property
    def works(self) -> bool:
        """Whether weights can be sent."""
        return not self._failed and self._learner.sends

    def fail(self, reason: str) -> None:
        """Use files from now on."""
        if not self._failed:
            self._failed = True
            self._tell(
                f"Weights pass through files from now on: {self._transport} failed: {reason}"
            )

    async def send(
        self, engine: str, gpus: Sequence[str], control: VllmControl, version: int
    ) -> None:
        """Send the learner's weights, as ``version``, to a paused engine, named ``engine``. Raises
        `EngineFailed`, and what the learner raises."""
        async with self.turn:
            if self._transport is Transport.IPC:
                await self._share(control, version)
                return
            if self._joined.get(engine) is not control:  # new, or restarted
                await self._join(engine, len(gpus), control)
            tensors = await self._learner.describe()
            async with control.updating():
                await together(
                    control.receive({**tensors, "version": version}),
                    self._learner.broadcast(engine),
                )

    async def _share(self, control: VllmControl, version: int) -> None:
        try:
            async with control.updating():
                while (chunk := await self._learner.send_chunk()) is not None:
                    await control.receive({**chunk, "version": version})
        except EngineFailed:
            await self._learner.end_chunks()
            raise
        await self._learner.end_chunks()

    async def _join(self, engine: str, gpus: int, control: VllmControl) -> None:
        group = group_of(await self._learner.make_group(), gpus)
        await together(control.join_group(group), self._learner.join_group(engine, 1 + gpus))
        self._joined[engine] = control


def group_of(unique_id: str, gpus: int) -> JsonObject:
    """What an engine is told to join a group that has the learner and its own ``gpus``."""
    return {
        "nccl_unique_id_b64": unique_id,
        "rank_offset": 1,
        "world_size": 1 + gpus,
        "packed": True,
        "packed_buffer_size_bytes": CHUNK_BYTES,
    }


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Run both sides of a collective; raises the first error, once both have ended."""
    for done in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(done, BaseException):
            raise done
