"""Listing and downloading the files of a job's folder."""

import hashlib
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse
from sqlalchemy import select

from services.api.context import Gateway, GatewayContext
from services.api.downloads import DOWNLOAD, download
from services.api.files.expiry import output_expires_at
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.batches.batches import ERROR_FILE, OUTPUT_FILE
from services.contracts.data.files import File, FilePurpose
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound
from services.contracts.jobs import Artifact
from services.core.db.tables import JobRow
from services.core.process.reporter import METRICS
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.jobs.store import get_job

router = APIRouter(
    prefix="/v1/jobs/{job_id}/artifacts",
    tags=["jobs"],
    responses=documented_errors(AuthenticationFailed),
)

_RESULT_FILE = re.compile(
    r"file-(?P<job>ftjob-[0-9a-f]{24})-(?P<metrics>results|metrics)"
    r"|file-(?P<batch>batch-[0-9a-f]{24})-(?P<lines>output|errors)"
)
_METRICS_NAMES = {"results": "step_metrics.csv", "metrics": METRICS}
_BATCH_NAMES = {"output": OUTPUT_FILE, "errors": ERROR_FILE}


@router.get(
    "", summary="List a job's artifacts", responses=documented_errors(InvalidRequest, NotFound)
)
def list_artifacts(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Artifact]:
    """List the files that the job has written so far, by path: models, checkpoints, logs."""
    artifacts = find_artifacts(_job_dir(gateway, job_id))
    rest = [each for each in artifacts if after is None or each.id > after]
    return page_of(rest[:limit], len(rest) > limit)


@router.get(
    "/{path:path}",
    summary="Download an artifact of a job",
    response_class=FileResponse,
    responses=DOWNLOAD | documented_errors(NotFound),
)
def get_artifact(gateway: Gateway, _principal: Principal, job_id: str, path: str) -> FileResponse:
    """Download one file of the job's folder."""
    file = open_artifact(_job_dir(gateway, job_id), path)
    return download(file, file.name)


def find_artifacts(folder: Path) -> list[Artifact]:
    """The regular files below a folder, by path; symbolic links are not followed."""
    found: list[Artifact] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            try:
                status = path.lstat()
            except FileNotFoundError:  # replaced by the job
                continue
            if stat.S_ISREG(status.st_mode) and not name.startswith("."):
                relative = path.relative_to(folder).as_posix()
                modified = int(status.st_mtime)
                found.append(Artifact(id=relative, bytes=status.st_size, created_at=modified))
    return sorted(found, key=lambda artifact: artifact.id)


def open_artifact(folder: Path, name: str) -> Path:
    """The path of a regular file below ``folder``; raises `NotFound`, also for symbolic links."""
    root = folder.resolve()
    try:
        path = (root / name).resolve()
        is_file = path == root / name and root in path.parents and path.is_file()
    except (OSError, ValueError, RuntimeError):  # name too long, NUL, cycle of links
        is_file = False
    if not is_file or any(part.startswith(".") for part in Path(name).parts):
        message = f"no artifact {name[:200]!r} of this job"
        raise NotFound(message, param="path", code="artifact_not_found")
    return path


def result_file_ids(job_id: str) -> list[str]:
    """The ids under which /v1/files serves the metrics of a fine-tuning job: OpenAI's CSV first,
    then all metrics as JSON lines."""
    return [f"file-{job_id}-{suffix}" for suffix in _METRICS_NAMES]


def batch_file_id(job_id: str, suffix: Literal["output", "errors"]) -> str:
    """The id under which /v1/files serves the output or the errors of a batch."""
    return f"file-{job_id}-{suffix}"


@dataclass(frozen=True)
class ResultFile:
    """A file that a job has written."""

    path: Path
    expires_at: float | None = None


def find_result_file(gateway: GatewayContext, file_id: str) -> ResultFile | None:
    """The metrics of a fine-tuning job, or the output or errors of a batch, by file id; None for
    any other id, and for files that have expired."""
    match = _RESULT_FILE.fullmatch(file_id)
    if match is None:
        return None
    names = {**_METRICS_NAMES, **_BATCH_NAMES}
    path = gateway.artifacts.job(match["job"] or match["batch"])
    path /= names[match["metrics"] or match["lines"]]
    if not path.is_file():
        return None
    if match["batch"] is None:
        return ResultFile(path)
    with gateway.database.read() as session:
        row = session.scalar(select(JobRow).where(JobRow.id == match["batch"]))
        expires_at = output_expires_at(row) if row is not None else None
    expired = expires_at is not None and time.time() >= expires_at
    return None if expired else ResultFile(path, expires_at)


def result_file_view(file_id: str, found: ResultFile) -> File:
    """The wire view of a result file."""
    path = found.path
    status = path.stat()
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return File(
        id=file_id,
        bytes=status.st_size,
        created_at=int(status.st_mtime),
        filename=path.name,
        purpose=(
            FilePurpose.BATCH_OUTPUT
            if path.name in _BATCH_NAMES.values()
            else FilePurpose.FINE_TUNE_RESULTS
        ),
        sha256=sha256,
        expires_at=int(found.expires_at) if found.expires_at is not None else None,
    )


def _job_dir(gateway: GatewayContext, job_id: str) -> Path:
    with gateway.database.read() as session:
        get_job(session, job_id)
    return gateway.artifacts.job(job_id)
