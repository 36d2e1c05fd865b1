"""The bounds of a pool."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Capacity:
    """How much the pool may run at once, and how much one program may use besides memory.

    ``cores`` are those whose time the processes of one program may take together. Sandboxes that
    wait for a program longer than ``idle_seconds`` are given up.
    """

    programs: int
    sessions: int
    processes: int
    disk_bytes: int
    cores: float = 2.0
    open_files: int = 1024
    idle_seconds: float = 60.0
