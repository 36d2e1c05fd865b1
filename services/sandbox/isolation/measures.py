"""What is enforced on programs and what is not, in words for who runs the service."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.tier import Tier

SCOPES_ABI = 6
"""The version of Landlock from which signals and abstract sockets can be kept apart."""


@dataclass(frozen=True)
class Measure:
    """One thing that programs are kept from; ``description`` says how, or why not."""

    name: str
    enforced: bool
    description: str


def measures(
    tier: Tier, landlock_abi: int, cgroups: Cgroups, reachable: Sequence[str]
) -> tuple[Measure, ...]:
    """Return every measure of the tier, with the limits that hold on this machine.

    ``reachable`` are the destinations outside that the operator opens.
    """
    of_tier = _FULL if tier is Tier.FULL else _container(landlock_abi)
    return (*of_tier, _outside(reachable), *_COMMON, *_limits(cgroups))


_COMMON = (
    Measure("privileges", True, "no capabilities, and no executed program can bring any back"),
    Measure(
        "system_calls",
        True,
        "a seccomp allow-list without namespaces, mounts, tracing, kernel keys, io_uring, bpf, "
        "userfaultfd and device nodes; calls of another architecture kill the program",
    ),
    Measure("resource_limits", True, "on descriptors, processes, file sizes, stacks, core dumps"),
)

_FULL = (
    Measure("user_namespace", True, "of every run's own, with one unprivileged user in it"),
    Measure("pid_namespace", True, "of every run's own: it sees no other process, all end with it"),
    Measure("mount_namespace", True, "of every run's own, over a minimal read-only root"),
    Measure("network_namespace", True, "of every run's own, with a loopback interface alone"),
    Measure("ipc_namespace", True, "of every run's own: shared memory and queues end with it"),
    Measure("uts_namespace", True, "of every run's own: the machine's name is not seen"),
    Measure("files", True, "in memory of the run's own, bounded in size and number; Landlock too"),
)


def _outside(reachable: Sequence[str]) -> Measure:
    if not reachable:
        return Measure("network_outside", True, "out of reach, as is the machine itself")
    listed = ", ".join(reachable)
    return Measure("network_outside", True, f"only by a proxy, and it leads only to {listed}")


def _container(landlock_abi: int) -> tuple[Measure, ...]:
    scoped = landlock_abi >= SCOPES_ABI
    return (
        Measure("user_namespace", False, "the container's; every slot has a user id of its own"),
        Measure("pid_namespace", False, "the container's; all of the slot's user are killed"),
        Measure("mount_namespace", False, "the container's; Landlock shows system files and own"),
        Measure(
            "network_namespace",
            False,
            "the container's; there are no sockets but connected pairs, not even within the run",
        ),
        Measure(
            "ipc_namespace",
            False,
            "the container's; queues are refused, files in /dev/shm are removed after the run",
        ),
        Measure("uts_namespace", False, "the container's: its name is seen"),
        Measure("files", True, "Landlock: the run's own folders, shared memory, system files"),
        Measure("signals", True, "user ids" + (" and Landlock" if scoped else "")),
    )


def _limits(cgroups: Cgroups) -> tuple[Measure, ...]:
    instead = {
        Controller.MEMORY: "sums over the run's processes and files are sampled and enforced",
        Controller.PIDS: "a resource limit counts the processes of the user",
        Controller.CPU: "processors are shared by the kernel's scheduler alone",
    }
    by_cgroup = {
        Controller.MEMORY: "real memory, swap included, of processes, files and buffers",
        Controller.PIDS: "processes and threads of a slot",
        Controller.CPU: "processor time of a slot",
    }
    return tuple(
        Measure(f"{controller}_cgroup", True, by_cgroup[controller])
        if controller in cgroups.controllers
        else Measure(
            f"{controller}_cgroup", False, f"{cgroups.reasons[controller]}; {instead[controller]}"
        )
        for controller in Controller
    )
