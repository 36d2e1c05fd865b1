"""The durable rows of an evaluation: ``results.jsonl`` in the job directory.

The format, for whoever reads the file, also while it is written:

- one JSON object a line, UTF-8, each line ended by a newline; what follows the last newline is a
  row that is still being written, or was torn by a kill, and does not count;
- an object holds the fields of ``SampleResult`` but ``id``, which is the reader's to give;
- rows stand in the order in which samples were finished; an ``index`` occurs at most once;
- rows are only ever appended, so that a byte offset behind a newline stays valid, with one
  exception: when a new attempt of the job begins and the one before left rows without an answer,
  the file is replaced by one without these rows, because their samples are asked again.
"""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from pydantic import Field, ValidationError

from services.contracts.errors import StorageFull
from services.contracts.evaluations import SampleResult

RESULTS = "results.jsonl"
SYNC_SECONDS = 0.25


class ResultRow(SampleResult):
    """A row as it lies on disk."""

    id: str = Field(default="", exclude=True)


class ResultsFile:
    """Appends rows to the file of a job.

    A row survives the end of this process once `append` has returned, and the end of the machine
    once it is synced: while `sync_forever` runs, within ``SYNC_SECONDS`` and one fsync.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by __exit__
        self._synced = True

    def __enter__(self) -> "ResultsFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file:
            try:
                self._sync()
            except (OSError, StorageFull):
                if error is None:  # otherwise what ended the block tells more
                    raise

    def append(self, row: ResultRow) -> None:
        """Write one row; raises ``StorageFull`` when the disk holds no more."""
        line = memoryview(row.model_dump_json().encode() + b"\n")
        with _full_disk_named():
            while line:
                line = line[self._file.write(line) :]
        self._synced = False

    async def sync_forever(self) -> None:
        """Sync what was appended, again and again, until cancelled."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            if not self._synced:
                self._synced = True
                await asyncio.to_thread(self._sync)

    def _sync(self) -> None:
        with _full_disk_named():
            os.fsync(self._file.fileno())


@contextmanager
def _full_disk_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull("the disk is full; results can no longer be written") from error
        raise


def prepare(path: Path, samples: int) -> None:
    """Make the file of earlier attempts, if there is one, ready to be appended to.

    A torn last line is cut off. Rows without an answer, unreadable ones (the machine lost power),
    those of an index outside ``range(samples)`` or of one seen before are dropped. A kill in
    between leaves the file as it was, or ready.
    """
    if not path.exists():
        return
    kept_path = path.with_suffix(".partial")
    seen = bytearray(samples)
    whole_bytes, dropped = 0, False
    with open(path, "r+b") as file, open(kept_path, "wb") as kept:
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole_bytes += len(line)
            index = _answered_index(line)
            if index is not None and 0 <= index < samples and not seen[index]:
                seen[index] = True
                kept.write(line)
            else:
                dropped = True
        file.truncate(whole_bytes)
        os.fsync(file.fileno())
        kept.flush()
        os.fsync(kept.fileno())
    if dropped:
        kept_path.replace(path)
    else:
        kept_path.unlink()


def read_rows(path: Path) -> Iterator[ResultRow]:
    """The rows of a prepared file, in their order; none when there is no file."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for line in file:
            yield ResultRow.model_validate_json(line)


def _answered_index(line: bytes) -> int | None:
    try:
        row = ResultRow.model_validate_json(line)
    except ValidationError:
        return None
    return None if row.correct is None else row.index
