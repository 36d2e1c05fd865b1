"""Expiry of uploaded files and of the output files of batches."""

import logging
import time
from collections.abc import Iterator, Mapping

from pydantic import ValidationError
from pydantic_core import from_json
from sqlalchemy import select

from services.api.files.removal import remove_content, remove_file
from services.contracts.batches.batches import ERROR_FILE, OUTPUT_FILE, CreateBatch
from services.contracts.data.files import ExpiresAfter
from services.contracts.errors import Conflict, InvalidRequest, NotFound
from services.contracts.jobs import JobKind
from services.contracts.validation import first_fault
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import DatasetRow, FileRow, JobRow

logger = logging.getLogger(__name__)

EXPIRY_PARTS = ("expires_after", "expires_after[anchor]", "expires_after[seconds]")
"""Form fields of OpenAI's expiry policy, under the names that its clients send."""

BATCH_SIZE = 100
"""Maximum uploaded files that one round deletes."""
OVERLAP_SECONDS = 3600.0
"""Overlap of the rounds of `FileExpiry`: clocks of hosts differ."""


def read_expiry(parts: Mapping[str, bytes]) -> ExpiresAfter | None:
    """The policy in a form's fields, which are empty if missing; raises `InvalidRequest`."""
    whole, anchor, seconds = (parts[name].decode(errors="replace") for name in EXPIRY_PARTS)
    if not (whole or anchor or seconds):
        return None
    try:
        given = from_json(whole) if whole else {"anchor": anchor, "seconds": int(seconds)}
        return ExpiresAfter.model_validate(given)
    except ValidationError as error:
        fault = first_fault(error)
        field = ".".join(("expires_after", *map(str, fault.location)))
        raise InvalidRequest(f"{field}: {fault.message}", param="expires_after") from error
    except ValueError as error:
        message = f"expires_after: {error}"
        raise InvalidRequest(message, param="expires_after") from error


class FileExpiry:
    """Deletes expired files; a file that an unfinished job needs is kept until the job ends."""

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._batches_until = 0.0

    def apply(self, database: Database) -> None:
        """Delete what has expired since the last round."""
        now = time.time()
        # A data set holds its file for as long as it is registered.
        expired = (FileRow.expires_at <= now, FileRow.id.not_in(select(DatasetRow.file_id)))
        with database.read() as session:
            query = (
                select(FileRow.id).where(*expired).order_by(FileRow.expires_at).limit(BATCH_SIZE)
            )
            found = list(session.scalars(query))
        for file_id in found:
            self._delete(database, file_id)
        since = self._batches_until - OVERLAP_SECONDS
        for job_id in _expired_batches(database, since, now):
            for name in (OUTPUT_FILE, ERROR_FILE):
                (self._artifacts.job(job_id) / name).unlink(missing_ok=True)
        self._batches_until = now

    def _delete(self, database: Database, file_id: str) -> None:
        try:
            with database.write() as session:
                remove_file(session, self._artifacts, file_id)
        except (Conflict, NotFound) as error:
            logger.debug("%s is kept: %s", file_id, error)
            return
        remove_content(self._artifacts, file_id)
        logger.info("deleted %s, which has expired", file_id)


def output_expires_at(job: JobRow) -> float | None:
    """When the files of a finished batch are deleted; None: never, or it is unfinished."""
    after = CreateBatch.model_validate(job.request).output_expires_after
    if after is None or job.finished_at is None:
        return None
    return float(job.finished_at + after.seconds)


def _expired_batches(database: Database, since: float, now: float) -> Iterator[str]:
    seconds = JobRow.request["output_expires_after"]["seconds"].as_float()
    query = select(JobRow.id).where(
        JobRow.kind == JobKind.BATCH.value,
        JobRow.finished_at + seconds <= now,
        JobRow.finished_at + seconds > since,
    )
    with database.read() as session:
        yield from list(session.scalars(query))
