"""What a zygote is told of the machine, and where a run finds its files.

The service sends these as JSON when it starts a zygote; nothing in them comes from a user.
"""

from typing import NamedTuple

USER = 1000
"""The user and group id of programs inside the namespaces of the full tier."""

USERS = 4096
"""So many user ids, from the first on, are the slots'."""

PROXY_PORT = 3128
"""Where on their loopback interface runs find the way out, if they have one."""


class Places(NamedTuple):
    """The folders that are private to a run."""

    workspace: str
    temporary: str
    shared_memory: str


PLACES = Places("/workspace", "/tmp", "/dev/shm")  # noqa: S108 - the run's own mounts
"""Where they are in the full tier."""


class Configuration(NamedTuple):
    """How the zygotes of this service confine their runs.

    ``root`` is an empty folder to build the minimal root on; ``visible`` are the paths of the
    machine that it shows, read-only; ``readable`` those a program may read and execute from, and
    ``writable`` those it may also write to; ``links`` and ``files`` are made in it. ``host_user``
    is the first of the slots' user ids outside, or None when the service is no root and keeps its
    own. ``seccomp`` is the filter, which travels apart. Runs that are ``proxied`` hand over a
    socket that listens on their `PROXY_PORT`. Sizes are bytes.
    """

    tier: str
    root: str
    visible: list[str]
    readable: list[str]
    writable: list[str]
    links: dict[str, str]
    files: dict[str, str]
    devices: list[str]
    host_user: int | None
    seccomp: bytes
    scoped: bool
    disk_bytes: int
    inodes: int
    processes: int
    open_files: int
    sampled_memory: bool
    proxied: bool = False

    @property
    def covered(self) -> list[str]:
        """What is visible below a place of the run, whose mount would cover it."""
        return [path for path in self.visible if path.startswith(tuple(f"{p}/" for p in PLACES))]

    @property
    def sampled(self) -> bool:
        """Whether a slot must look at what its run holds: the kernel does not bound all of it."""
        return self.sampled_memory or self.tier == "container"
