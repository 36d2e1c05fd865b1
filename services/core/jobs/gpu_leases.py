"""Leases on devices: all that a job needs, or none.

A lease belongs to one claim of a job (its epoch) and ends with it: the executor frees it once
the process group is gone, the reconciler when the claim itself has expired.
"""

import time
from collections.abc import Collection, Sequence

from sqlalchemy import and_, delete, exists, select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import JobRow, ResourceLeaseRow
from services.core.jobs.gpu_inventory import HostDevices


def free_devices(session: Session, wanted: Collection[str]) -> list[str]:
    """Those of ``wanted`` that no job holds, in their order."""
    held = set(
        session.scalars(
            select(ResourceLeaseRow.resource_id).where(ResourceLeaseRow.resource_id.in_(wanted))
        )
    )
    return [device for device in wanted if device not in held]


def hold_devices(
    session: Session, devices: HostDevices, job_id: str, epoch: int, ids: Sequence[str]
) -> None:
    """Take devices; the primary key makes a second holder fail with an IntegrityError."""
    now = time.time()
    session.add_all(
        ResourceLeaseRow(
            resource_id=device, host=devices.host, job_id=job_id, epoch=epoch, acquired_at=now
        )
        for device in ids
    )
    session.flush()


def release_devices(session: Session, job_id: str, epoch: int) -> int:
    """Free what one claim holds; return how many devices that was."""
    freed = session.scalars(
        delete(ResourceLeaseRow)
        .where(ResourceLeaseRow.job_id == job_id, ResourceLeaseRow.epoch == epoch)
        .returning(ResourceLeaseRow.resource_id)
    )
    return len(freed.all())


def release_stale_devices(session: Session) -> int:
    """Free devices whose claim is no longer the running one of its job."""
    live = exists().where(
        and_(
            JobRow.id == ResourceLeaseRow.job_id,
            JobRow.epoch == ResourceLeaseRow.epoch,
            JobRow.status == JobStatus.RUNNING.value,
        )
    )
    freed = session.scalars(
        delete(ResourceLeaseRow).where(~live).returning(ResourceLeaseRow.resource_id)
    )
    return len(freed.all())
