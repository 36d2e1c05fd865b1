"""The GPUs of this machine and their use, by NVML."""

import os
from collections.abc import Collection
from dataclasses import dataclass

import pynvml

FOREIGN_MEMORY_SHARE = 0.05
"""A GPU without a lease that has a larger share of its memory in use belongs to others."""


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
