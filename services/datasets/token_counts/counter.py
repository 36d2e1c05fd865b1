"""Counts tokens in a child process, and caches the result by the checksums of its input."""

import asyncio
import contextlib
import hashlib
import sys
import tempfile
from pathlib import Path

from pydantic import ValidationError

from services.contracts.data.datasets import TokenStatistics
from services.contracts.errors import TemperError
from services.core.process.runtimes import child_environment
from services.core.process.worker_pool import WorkerFailed, WorkerPool

CHILD = "services.datasets.token_counts.child"
FOLDER = "token_counts"
MAX_CHARACTERS = 16 << 20
"""For larger files, the size of the first rows' texts to count."""
MAX_CACHED = 2000
MAX_CONCURRENT_COUNTS = 2
START_SECONDS = 60.0
SECONDS = 60.0
MAX_ANSWER_BYTES = 1 << 20


class TokensNotCounted(TemperError):
    """The tokens could not be counted; the message says why, without a subject."""

    code = "tokens_not_counted"


class TokenCounter:
    """Token statistics of files by tokenizer; ``home`` is the cache folder."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._places = asyncio.Semaphore(MAX_CONCURRENT_COUNTS)

    async def count(
        self, path: Path, sha256: str, tokenizer: Path, model: str, most: int = MAX_CHARACTERS
    ) -> TokenStatistics:
        """Token counts of each row's texts; of the first rows only, for larger files.

        ``sha256`` is the file's, ``tokenizer`` a tokenizer.json, and ``model`` its name in the
        result. Raises `TokensNotCounted`.
        """
        try:
            checksum = await asyncio.to_thread(checksum_of, tokenizer)
        except OSError as error:
            raise TokensNotCounted(f"tokenizer.json cannot be read: {error}") from None
        key = hashlib.sha256(f"{sha256}/{checksum}/{most}".encode()).hexdigest()
        kept = self._folder / f"{key}.json"
        found = await asyncio.to_thread(_read, kept)
        if found is None:
            found = await self._counted(path, tokenizer, most)
            await asyncio.to_thread(_keep, kept, found)
        return found.model_copy(update={"model": model})

    async def _counted(self, path: Path, tokenizer: Path, most: int) -> TokenStatistics:
        pool = WorkerPool(
            [sys.executable, "-m", CHILD],
            1,
            child_environment({}),
            start_seconds=START_SECONDS,
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        request = {"path": str(path), "tokenizer": str(tokenizer), "most_characters": most}
        try:
            async with self._places, pool:
                answer = await pool.call(request, SECONDS)
        except WorkerFailed as error:
            raise TokensNotCounted(f"the process that counts {error.message}") from None
        return TokenStatistics.model_validate(answer)


def checksum_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _read(kept: Path) -> TokenStatistics | None:
    try:
        return TokenStatistics.model_validate_json(kept.read_bytes())
    except (OSError, ValidationError):
        return None


def _keep(kept: Path, found: TokenStatistics) -> None:
    """Cache statistics atomically, and evict the oldest beyond the limit; on a write error nothing
    is cached."""
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent.parent) as folder:
            partial = Path(folder) / kept.name
            partial.write_text(found.model_dump_json())
            partial.replace(kept)
        oldest = sorted(kept.parent.glob("*.json"), key=lambda each: each.stat().st_mtime_ns)
        for each in oldest[:-MAX_CACHED]:
            each.unlink(missing_ok=True)
