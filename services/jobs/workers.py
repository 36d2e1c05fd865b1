"""Worker processes and their heartbeats."""

from collections.abc import Sequence

from sqlalchemy import delete, exists, or_, select
from sqlalchemy.orm import Session

from services.core.db.engine import now
from services.core.db.tables import JobRow, WorkerRow
from services.jobs.devices import HostDevices

RETENTION_SECONDS = 600.0
SILENCE_SECONDS = 20.0
"""A worker that is silent for longer counts as lost; it beats every few seconds."""


def heartbeat(session: Session, worker_id: str, queues: list[str], devices: HostDevices) -> None:
    """Record that a worker is alive and what it offers."""
    beat = now(session)
    row = session.get(WorkerRow, worker_id)
    if row is None:
        row = WorkerRow(id=worker_id, host=devices.host, started_at=beat)
        session.add(row)
    row.queues = queues
    row.gpus = list(devices.gpus)
    row.gpu_bytes = list(devices.gpu_bytes)
    row.cpu_slots = devices.cpu_slots
    row.heartbeat_at = beat


def live_workers(session: Session) -> Sequence[WorkerRow]:
    """Workers with a recent heartbeat, oldest first."""
    return session.scalars(
        select(WorkerRow)
        .where(WorkerRow.heartbeat_at > now(session) - SILENCE_SECONDS)
        .order_by(WorkerRow.started_at, WorkerRow.id)
    ).all()


def largest_gpu(session: Session, queue: str) -> int | None:
    """Memory in bytes of the largest GPU that live workers of a queue have; None without any."""
    serving = [row for row in live_workers(session) if queue in row.queues]
    return max((size for row in serving for size in row.gpu_bytes or ()), default=None)


def remove_worker(session: Session, worker_id: str) -> None:
    """Remove a worker that shuts down."""
    session.execute(delete(WorkerRow).where(WorkerRow.id == worker_id))


def is_needed(session: Session, worker_id: str) -> bool:
    """Whether a worker is registered or has jobs."""
    owns = exists().where(JobRow.owner == worker_id)
    registered = exists().where(WorkerRow.id == worker_id)
    return bool(session.scalar(select(or_(owns, registered))))


def remove_dead_workers(session: Session) -> None:
    """Remove workers without a heartbeat for ten minutes."""
    session.execute(
        delete(WorkerRow).where(WorkerRow.heartbeat_at < now(session) - RETENTION_SECONDS)
    )
