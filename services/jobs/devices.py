"""Devices of a host and the leases that jobs hold on them: all that a job needs, or none.

A lease belongs to one claim of a job (its epoch). The worker releases it once the process tree is
gone, the reconciler when the claim itself has expired.
"""

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pynvml
from sqlalchemy import and_, delete, exists, select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import JobRow, ResourceLeaseRow

FOREIGN_MEMORY_SHARE = 0.05
"""A GPU without a lease that has a larger share of its memory in use belongs to others."""

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


@dataclass(frozen=True)
class GpuUse:
    """What a GPU does: the percentage of the last second in which it computed, and its memory in
    use, in bytes."""

    gpu: str
    percent: int
    used: int
    total: int

    def __str__(self) -> str:
        memory = f"{self.used / 2**30:.1f} of {self.total / 2**30:.1f} GiB"
        return f"{self.gpu} computes {self.percent} % of the time, {memory} in use"


def visible_gpus() -> tuple[str, ...]:
    """UUIDs of the GPUs that this process may use, by NVML; none without an NVIDIA driver.

    The operator's CUDA_VISIBLE_DEVICES restricts them by index or UUID.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        count = pynvml.nvmlDeviceGetCount()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        uuids = [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    finally:
        pynvml.nvmlShutdown()
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return tuple(uuids)
    names = [name.strip() for name in allowed.split(",") if name.strip()]
    return tuple(uuid for index, uuid in enumerate(uuids) if str(index) in names or uuid in names)


def occupied_gpus(gpus: Collection[str]) -> set[str]:
    """Those of ``gpus`` with more than `FOREIGN_MEMORY_SHARE` of their memory in use."""
    if not gpus:
        return set()
    pynvml.nvmlInit()
    try:
        return {uuid for uuid in gpus if _memory_share(uuid) > FOREIGN_MEMORY_SHARE}
    finally:
        pynvml.nvmlShutdown()


def gpu_memory(gpus: Collection[str]) -> tuple[int, ...]:
    """The memory of each of ``gpus`` in bytes."""
    if not gpus:
        return ()
    pynvml.nvmlInit()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in gpus]
        return tuple(int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles)
    finally:
        pynvml.nvmlShutdown()


def gpu_use(gpus: Collection[str]) -> tuple[GpuUse, ...]:
    """The use of those of ``gpus`` that tell it; NVML cannot for parts of a GPU (MIG)."""
    if not gpus:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        found = [_use(uuid) for uuid in gpus]
    finally:
        pynvml.nvmlShutdown()
    return tuple(use for use in found if use is not None)


def _use(uuid: str) -> GpuUse | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        percent = int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError:
        return None
    return GpuUse(uuid, percent, int(memory.used), int(memory.total))


def _memory_share(uuid: str) -> float:
    memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid))
    return float(memory.used) / float(memory.total)


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
