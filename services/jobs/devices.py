"""Devices of a host and the leases that jobs hold on them: all that a job needs, or none.

A lease belongs to one claim of a job (its epoch). The worker releases it once the process tree is
gone, the reconciler when the claim itself has expired.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, delete, exists, select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import JobRow, ResourceLeaseRow

CPU_SLOT, REMOTE = "cpu-", "remote-"
"""Prefixes of slot ids; slots are leased like GPUs."""


@dataclass(frozen=True)
class HostDevices:
    """The devices of a host. A CPU slot runs one job that needs no GPU, a remote slot one that only
    asks remote endpoints.

    ``gpu_bytes`` is the memory of each GPU.
    """

    host: str
    gpus: tuple[str, ...]
    cpu_slots: int
    gpu_bytes: tuple[int, ...] = ()
    remote_slots: int = 0

    def slot_ids(self) -> list[str]:
        """The ids of the CPU slots in leases."""
        return [f"{CPU_SLOT}{self.host}-{slot}" for slot in range(self.cpu_slots)]

    def remote_slot_ids(self) -> list[str]:
        """The ids of the remote slots in leases."""
        return [f"{REMOTE}{self.host}-{slot}" for slot in range(self.remote_slots)]


def named_devices(names: Sequence[int | str], gpus: Sequence[str]) -> list[str] | None:
    """Resolve GPU indexes or UUIDs to UUIDs; None unless all exist."""
    found = [_resolve_device(name, gpus) for name in names]
    return None if None in found else [uuid for uuid in found if uuid is not None]


def _resolve_device(name: int | str, gpus: Sequence[str]) -> str | None:
    if isinstance(name, int):
        return gpus[name] if name < len(gpus) else None
    return name if name in gpus else None


def holders(session: Session, devices: Collection[str]) -> dict[str, str]:
    """The ids of the jobs that hold devices; devices without a lease are absent."""
    rows = session.execute(
        select(ResourceLeaseRow.resource_id, ResourceLeaseRow.job_id).where(
            ResourceLeaseRow.resource_id.in_(devices)
        )
    )
    return dict(rows.all())


def free_devices(session: Session, wanted: Collection[str]) -> list[str]:
    """Those of ``wanted`` that no job holds, in order."""
    held = set(
        session.scalars(
            select(ResourceLeaseRow.resource_id).where(ResourceLeaseRow.resource_id.in_(wanted))
        )
    )
    return [device for device in wanted if device not in held]


def hold_devices(
    session: Session, devices: HostDevices, job_id: str, epoch: int, ids: Sequence[str]
) -> None:
    """Lease devices to a claim; raises IntegrityError when one is taken (its primary key)."""
    now = time.time()
    session.add_all(
        ResourceLeaseRow(
            resource_id=device, host=devices.host, job_id=job_id, epoch=epoch, acquired_at=now
        )
        for device in ids
    )
    session.flush()


def release_devices(session: Session, job_id: str, epoch: int) -> int:
    """Release the devices of a claim; return their number."""
    freed = session.scalars(
        delete(ResourceLeaseRow)
        .where(ResourceLeaseRow.job_id == job_id, ResourceLeaseRow.epoch == epoch)
        .returning(ResourceLeaseRow.resource_id)
    )
    return len(freed.all())


def release_stale_devices(session: Session) -> int:
    """Release devices whose claim is no longer its job's current one; return their number."""
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
