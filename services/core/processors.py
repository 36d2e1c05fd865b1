"""What computing without a GPU may use: the cores of this process, and the processor's types."""

import math
import os
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Flags of processors that multiply in bfloat16: of x86, and of Arm."""


def usable_cores(quota: Path = QUOTA) -> int:
    """The cores that this process may run on, or the fewer that its container is granted."""
    cores = len(os.sched_getaffinity(0))
    try:
        granted, period = quota.read_text(encoding="ascii").split()
        return max(1, min(cores, math.ceil(int(granted) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):  # no limit ("max"), or no such file
        return cores


def has_native_bfloat16(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor multiplies in bfloat16; others emulate it, several times slower than
    float32."""
    try:
        words = cpuinfo.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return False
    return not BFLOAT16.isdisjoint(words)
