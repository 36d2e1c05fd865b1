"""How much memory is left: of the machine, and in the control groups of the service."""

from collections.abc import Iterator
from pathlib import Path

from services.sandbox.isolation.hierarchy import Controller, own_cgroups

_MEMORY = Path("/proc/meminfo")
_KIBIBYTE = 1024


class FreeMemory:
    """Reads what programs can still take; ``groups`` are folders with a memory controller."""

    def __init__(self, groups: list[Path], machine: Path = _MEMORY) -> None:
        self._groups = groups
        self._machine = machine

    def __call__(self) -> int:
        """Bytes left where the least is left; what the kernel can reclaim counts as free."""
        lines = self._machine.read_bytes().splitlines()
        available = _value(lines, b"MemAvailable:") * _KIBIBYTE
        return min([available, *self._left_in_groups()])

    def _left_in_groups(self) -> Iterator[int]:
        for folder in self._groups:
            for limit, usage, reclaimable in (
                ("memory.max", "memory.current", b"inactive_file"),
                ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
            ):
                try:
                    most = (folder / limit).read_bytes().strip()
                    used = int((folder / usage).read_bytes())
                    statistics = (folder / "memory.stat").read_bytes().splitlines()
                except OSError:
                    continue
                if most != b"max":
                    yield int(most) - used + _value(statistics, reclaimable)


def memory_groups() -> list[Path]:
    """The groups that bound this process's memory: its own, and those above."""
    return [
        folder
        for location in own_cgroups()
        if Controller.MEMORY in location.controllers
        for folder in (location.folder, *location.folder.parents)
        if (folder / "memory.stat").exists()
    ]


def _value(lines: list[bytes], name: bytes) -> int:
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)
