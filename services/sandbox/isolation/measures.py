"""What is enforced on programs and what is not, for the operator."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.tier import Tier

SCOPES_ABI = 6
"""Landlock ABI from which signals and abstract sockets can be scoped."""


@dataclass(frozen=True)
class Measure:
    """One isolation measure; ``description`` says how it is enforced, or why it is not."""

    name: str
    enforced: bool
    description: str


def measures(
    tier: Tier,
    landlock_abi: int,
    cgroups: Cgroups,
    reachable: Sequence[str],
    gateways: Sequence[str],
) -> tuple[Measure, ...]:
    """Every measure of the tier, with the limits that are enforced on this machine.

    ``reachable`` are the destinations on the network allow-list, ``gateways`` those of the service
    itself.
    """
    of_tier = _FULL if tier is Tier.FULL else _container(landlock_abi)
    return (*of_tier, _outside(reachable), _of_service(gateways), *_COMMON, *_limits(cgroups))


_COMMON = (
    Measure("privileges", True, "no capabilities, and no_new_privs"),
    Measure(
        "system_calls",
        True,
        "a seccomp allow-list without namespaces, mounts, tracing, kernel keys, io_uring, bpf, "
        "userfaultfd and device nodes; calls of another architecture kill the program",
    ),
    Measure(
        "resource_limits", True, "on descriptors, processes, file sizes, stacks and core dumps"
    ),
)

_FULL = (
    Measure("user_namespace", True, "private to each run, with a single unprivileged user"),
    Measure(
        "pid_namespace",
        True,
        "private to each run: it sees no other processes, and all die with it",
    ),
    Measure("mount_namespace", True, "private to each run, over a minimal read-only root"),
    Measure(
        "network_namespace",
        True,
        "one that no earlier run has used, with only a loopback interface",
    ),
    Measure("ipc_namespace", True, "private to each run: shared memory and queues die with it"),
    Measure("uts_namespace", True, "private to each run: hides the host name"),
    Measure("files", True, "a private tmpfs, bounded in size and number of files; Landlock"),
    Measure(
        "covert_channels",
        False,
        "locks and watches on shared read-only files can carry signals between concurrent runs",
    ),
)


def _outside(reachable: Sequence[str]) -> Measure:
    if not reachable:
        return Measure("network_outside", True, "unreachable, as is the host itself")
    listed = ", ".join(reachable)
    return Measure("network_outside", True, f"only through a proxy, and only to {listed}")


def _of_service(gateways: Sequence[str]) -> Measure:
    if not gateways:
        return Measure("service_network", True, "the service itself has no default route")
    return Measure(
        "service_network",
        False,
        f"the service itself has a default route, via {', '.join(gateways)}: only the other "
        "measures keep programs from it",
    )


def _container(landlock_abi: int) -> tuple[Measure, ...]:
    scoped = landlock_abi >= SCOPES_ABI
    return (
        Measure("user_namespace", False, "the container's; each slot has a user id of its own"),
        Measure(
            "pid_namespace", False, "the container's; all processes of the slot's user are killed"
        ),
        Measure(
            "mount_namespace",
            False,
            "the container's; Landlock restricts access to system files and the run's own",
        ),
        Measure(
            "network_namespace",
            False,
            "the container's; only socket pairs are allowed, not even local servers",
        ),
        Measure(
            "ipc_namespace",
            False,
            "the container's; message queues are refused, /dev/shm is swept after the run",
        ),
        Measure("uts_namespace", False, "the container's: its host name is visible"),
        Measure(
            "files", True, "Landlock: only the run's own folders, shared memory and system files"
        ),
        Measure(
            "disk",
            False,
            "the container's, not bounded by the kernel: a run is killed when it exceeds its limit "
            "or holds more than it leaves to all others, which is looked at whenever space goes; "
            "space cannot be reserved at once nor files hidden in sockets, and no more runs are "
            "admitted than the free space serves",
        ),
        Measure("signals", True, "user ids" + (" and Landlock" if scoped else "")),
        Measure(
            "covert_channels",
            False,
            "locks and watches on shared read-only files, names of files in /dev/shm and the free "
            "space of shared file systems can carry signals between concurrent runs",
        ),
    )


def _limits(cgroups: Cgroups) -> tuple[Measure, ...]:
    instead = {
        Controller.MEMORY: "usage of processes and files is sampled and enforced",
        Controller.PIDS: "RLIMIT_NPROC counts the processes of the user",
        Controller.CPU: "only the scheduler shares the processors",
    }
    by_cgroup = {
        Controller.MEMORY: "memory and swap of processes, files and kernel buffers",
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
