"""The devices of this host, by UUID, as NVML sees them."""

import os
from collections.abc import Collection
from dataclasses import dataclass

import pynvml

FOREIGN_MEMORY_SHARE = 0.05
"""A card with more of its own memory in use than this, by nobody of ours, is left alone."""


@dataclass(frozen=True)
class HostDevices:
    """What a host offers to jobs. A CPU slot runs one job that needs no GPU."""

    host: str
    gpus: tuple[str, ...]
    cpu_slots: int

    def slot_ids(self) -> list[str]:
        """The lease names of the CPU slots."""
        return [f"cpu-{self.host}-{slot}" for slot in range(self.cpu_slots)]


def visible_gpus() -> tuple[str, ...]:
    """UUIDs of the GPUs this process may use; none where there is no NVIDIA driver.

    CUDA_VISIBLE_DEVICES, set by the operator, restricts them by index or UUID.
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
    """Those of ``gpus`` whose memory is in use, relative to each card's own size."""
    if not gpus:
        return set()
    pynvml.nvmlInit()
    try:
        return {uuid for uuid in gpus if _memory_share(uuid) > FOREIGN_MEMORY_SHARE}
    finally:
        pynvml.nvmlShutdown()


def _memory_share(uuid: str) -> float:
    memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid))
    return float(memory.used) / float(memory.total)
