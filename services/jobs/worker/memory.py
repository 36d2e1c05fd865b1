"""How much memory the processes of a job may hold together."""

import os
from pathlib import Path

SHARE = 0.9
"""Fraction of the machine's memory; the rest is for the worker and the other services."""

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files with a container's own limit (cgroup v2 and v1)."""


def job_memory(gib: float | None, limits: tuple[Path, ...] = CGROUP_LIMITS) -> int:
    """The limit in bytes: ``gib`` if set, otherwise `SHARE` of this machine or container."""
    if gib is not None:
        return int(gib * 2**30)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    containers = [limit for path in limits if (limit := _limit(path)) is not None]
    return int(min([machine, *containers]) * SHARE)


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
