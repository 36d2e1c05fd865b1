"""Builds the default index on first use, in a child process."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from services.core.process.tree import kill_tree
from services.retrieval.store.store import IndexStore

logger = logging.getLogger(__name__)

DEFAULT_INDEX = "python"
BUILDER = "services.retrieval.default_index.command"
MAX_SECONDS = 600.0


class Flag(Protocol):
    """A one-way flag."""

    def set(self) -> None:
        """Set it."""


@asynccontextmanager
async def building_default_index(folder: Path, default: str, built: Flag) -> AsyncIterator[None]:
    """Build the default index in the background if it is configured, missing, and was not deleted.

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


async def _build(folder: Path, built: Flag) -> None:
    logger.info("building the default index %s in %s", DEFAULT_INDEX, folder)
    try:
        status = await _run_builder(folder)
        if status != 0:
            logger.error("the default index was not built: exit code %d", status)
    except TimeoutError:
        logger.error("the default index was not built within %.0f s", MAX_SECONDS)
    except OSError as error:
        logger.error("the default index was not built: %s", error)
    finally:
        built.set()


async def _run_builder(folder: Path) -> int:
    builder = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", BUILDER, str(folder), stdin=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(MAX_SECONDS):
            return await builder.wait()
    finally:
        if builder.returncode is None:
            kill_tree(builder.pid)
            await builder.wait()
