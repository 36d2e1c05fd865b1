"""One control group: limits and usage of the processes in it."""

from collections.abc import Sequence
from pathlib import Path

from services.sandbox.isolation.cgroup_memory import FirstVersion, GroupMemory, SecondVersion
from services.sandbox.isolation.cgroup_removal import kill_all, processes_in, remove, signal_all
from services.sandbox.isolation.hierarchy import Controller, Hierarchy

_CPU_PERIOD_MICROSECONDS = 100_000


class Cgroup:
    """A group with the same name in each of ``hierarchies``.

    Without a controller, its limits are not set and its counters are None. Every operation may
    raise OSError.
    """

    def __init__(self, name: str, hierarchies: Sequence[Hierarchy]) -> None:
        self._folders = [hierarchy.folder / name for hierarchy in hierarchies]
        self._memory: GroupMemory | None = None
        self._pids: Path | None = None
        self._cpu: Path | None = None
        for hierarchy, folder in zip(hierarchies, self._folders, strict=True):
            folder.mkdir()
            if Controller.MEMORY in hierarchy.controllers:
                kind = FirstVersion if hierarchy.version == 1 else SecondVersion
                self._memory = kind(folder)
            if Controller.PIDS in hierarchy.controllers:
                self._pids = folder / "pids.max"
            if Controller.CPU in hierarchy.controllers:
                self._cpu = folder / ("cpu.cfs_quota_us" if hierarchy.version == 1 else "cpu.max")

    def add(self, pid: int) -> None:
        """Move a process with all its threads into the group; its children will start there."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def set_memory_limit(self, limit: int | None) -> None:
        """Limit memory plus swap; None lifts the limit."""
        if self._memory is not None:
            self._memory.set_limit(limit)

    def set_pids_limit(self, limit: int | None) -> None:
        """Limit the number of processes and threads; None lifts the limit."""
        if self._pids is not None:
            self._pids.write_text("max" if limit is None else str(limit))

    def set_cpu_limit(self, cores: float | None) -> None:
        """Limit processor time, in cores; None lifts the limit."""
        if self._cpu is None:
            return
        quota = None if cores is None else int(cores * _CPU_PERIOD_MICROSECONDS)
        if self._cpu.name == "cpu.max":
            self._cpu.write_text(f"{'max' if quota is None else quota} {_CPU_PERIOD_MICROSECONDS}")
        else:
            self._cpu.write_text(str(-1 if quota is None else quota))

    def set_cpu_weight(self, weight: float) -> None:
        """Set the share of busy processors relative to other groups, which have 1.0."""
        if self._cpu is None:
            return
        is_second = self._cpu.name == "cpu.max"
        name, default = ("cpu.weight", 100) if is_second else ("cpu.shares", 1024)
        self._cpu.with_name(name).write_text(str(max(1, int(default * weight))))

    def usage(self) -> int | None:
        """Bytes of memory in use."""
        return None if self._memory is None else self._memory.usage()

    def held(self) -> int | None:
        """Bytes in use without page cache, which the kernel can reclaim."""
        return None if self._memory is None else self._memory.held()

    def reset_peak(self) -> None:
        """Restart the measurement of peak memory."""
        if self._memory is not None:
            self._memory.reset_peak()

    def peak(self) -> int | None:
        """Peak memory since `reset_peak`; None also if the kernel cannot reset it (cgroup v2 before
        Linux 6.12).
        """
        return None if self._memory is None else self._memory.peak()

    def oom_kills(self) -> int:
        """Number of OOM kills since the group was created."""
        return 0 if self._memory is None else self._memory.oom_kills()

    def processes(self) -> set[int]:
        """Ids of the processes in the group."""
        return {pid for folder in self._folders for pid in processes_in(folder)}

    def process_count(self) -> int | None:
        """Number of processes and threads in the group."""
        return None if self._pids is None else int(self._pids.with_name("pids.current").read_text())

    def signal_all(self) -> None:
        """Send SIGKILL to every process in the group, without waiting for their end."""
        for folder in self._folders:
            signal_all(folder)

    def kill(self) -> None:
        """Kill every process in the group; waits at most 15 seconds for their end."""
        for folder in self._folders:
            kill_all(folder)

    def remove(self) -> None:
        """Kill everything in the group and remove it; waits at most 15 seconds."""
        if self._memory is not None:
            self._memory.close()
        for folder in self._folders:
            remove(folder)
