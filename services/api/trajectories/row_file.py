"""Writes the rows of a job's trajectories to a file that a fine-tuning can name."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.api.context import GatewayContext
from services.api.files.upload import Upload, storage_errors
from services.api.trajectories.training_rows import Refused, Source, rows_of
from services.contracts.base import JsonObject
from services.contracts.data.files import FilePurpose
from services.contracts.errors import PayloadTooLarge, Unavailable
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.kinds import JobKind
from services.contracts.rollouts.multi_turn import MultiTurn
from services.contracts.rollouts.rollouts import CreateRollout, TrajectoryOrder
from services.contracts.rollouts.training_rows import CreateTrainingRows, RowsLeftOut
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.ids import new_id
from services.datasets.append_log import UnreadableRecord
from services.jobs.job import Job
from services.rollouts.log.filter import TrajectoryFilter
from services.rollouts.log.listings import open_kept
from services.rollouts.log.log import read_places
from services.rollouts.parsers import parser_of


@dataclass(frozen=True)
class WrittenRows:
    """A file that is complete but not yet in the database, and what it holds."""

    upload: Upload
    rows: int
    trajectories: int
    has_more: bool
    left_out: list[RowsLeftOut]


@contextmanager
def written_rows(
    gateway: GatewayContext, job: Job, request: CreateTrainingRows
) -> Iterator[WrittenRows]:
    """Write the rows to a new file, which is deleted after the block unless it was moved.

    Raises `Unavailable` for a damaged record, `PayloadTooLarge` and `StorageFull`.
    """
    folder = gateway.artifacts.job(job.id)
    listing = open_kept(folder)
    where = TrajectoryFilter(
        min_reward=request.min_reward,
        max_reward=request.max_reward,
        mask=None if request.step is None else listing.steps(folder) == request.step,
    )
    spans, has_more = listing.page(
        where, TrajectoryOrder.FINISHED, descending=False, after=None, limit=request.limit
    )
    refused = Refused()
    rows = rows_of(request.layout, read_places(folder, spans), _source(job), refused)
    path = gateway.artifacts.uploads() / new_id("file")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        count, size, sha256 = _write(path, rows, gateway.settings.max_upload_bytes)
        name = f"{job.id}-{request.layout.value}.jsonl"
        yield WrittenRows(
            upload=Upload(path, name, FilePurpose.FINE_TUNE, size, sha256),
            rows=count,
            trajectories=len(spans),
            has_more=has_more,
            left_out=refused.by_count(),
        )
    except UnreadableRecord as error:
        raise Unavailable(error.message) from error
    finally:
        path.unlink(missing_ok=True)


def _write(path: Path, rows: Iterator[JsonObject], max_bytes: int) -> tuple[int, int, str]:
    """Write JSON lines; returns their number, the bytes and their SHA-256."""
    count, size, digest = 0, 0, hashlib.sha256()
    with storage_errors(), open(path, "xb") as file:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
            count, size = count + 1, size + len(line)
            if size > max_bytes:
                raise PayloadTooLarge(f"the rows have more than {max_bytes} bytes", param="limit")
            digest.update(line)
            file.write(line)
    return count, size, digest.hexdigest()


def _source(job: Job) -> Source:
    parser = parser_of(_multi_turn(job).tool_parser_format)
    return Source(job.id, str(job.request.get("model") or ""), parser)


def _multi_turn(job: Job) -> MultiTurn:
    """The settings with which a job's model was asked."""
    settings: MultiTurn | None = None
    match job.kind:
        case JobKind.FINE_TUNING:
            method = CreateFineTuningJob.model_validate(job.request).method
            online = method.online if method is not None else None
            settings = online.hyperparameters.multi_turn if online is not None else None
        case JobKind.EVALUATION:
            settings = CreateEvaluation.model_validate(job.request).multi_turn
        case JobKind.ROLLOUT:
            settings = CreateRollout.model_validate(job.request).multi_turn
    return settings or MultiTurn()
