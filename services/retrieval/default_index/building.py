"""Building the default index on first use, in a process of its own."""

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
    """Something that can be set."""

    def set(self) -> None:
        """Set it, for good."""


@asynccontextmanager
async def default_index_built(folder: Path, default: str, built: Mark) -> AsyncIterator[None]:
    """Meanwhile build the default index below ``folder`` if it is wanted and not there.

    ``built`` is set when there is nothing to build any more, even if building has failed.
    """
    if default != DEFAULT_INDEX or IndexStore(folder).version(default) is not None:
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
