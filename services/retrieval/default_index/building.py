"""Builds the default index on first use, in a child process."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from services.retrieval.store.store import IndexStore

logger = logging.getLogger(__name__)

DEFAULT_INDEX = "python"
BUILDER = "services.retrieval.default_index.command"
MAX_SECONDS = 600.0


class Mark(Protocol):
    """A one-way flag."""

    def set(self) -> None:
        """Set it."""


@asynccontextmanager
async def building_default_index(folder: Path, default: str, built: Mark) -> AsyncIterator[None]:
    """Build the default index in the background if it is wanted and missing, unless it was deleted.

    ``built`` is set once there is nothing left to build, even after a failed build.
    """
    store = IndexStore(folder)
    is_wanted = default == DEFAULT_INDEX and not store.was_dropped(default)
    if not is_wanted or store.version(default) is not None:
        built.set()
        yield
        return
    building = asyncio.create_task(_build(folder, built))
    try:
        yield
    finally:
        building.cancel()
        await asyncio.gather(building, return_exceptions=True)


async def _build(folder: Path, built: Mark) -> None:
    logger.info("building the default index %s below %s", DEFAULT_INDEX, folder)
    builder = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", BUILDER, str(folder), stdin=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(MAX_SECONDS):
            status = await builder.wait()
        if status != 0:
            logger.error("the default index was not built: exit code %d", status)
    except TimeoutError:
        logger.error("the default index was not built within %.0f s", MAX_SECONDS)
    finally:
        if builder.returncode is None:
            builder.kill()
            await builder.wait()
        built.set()
