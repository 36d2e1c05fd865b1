"""What a zygote knows about the machine, and the folders of a run.

The service sends it as JSON when it starts a zygote; nothing in it comes from a user.
"""

from typing import NamedTuple

USER = 1000
"""User and group id of programs inside the namespaces of the full tier."""

USERS = 4096
"""Number of consecutive user ids reserved for slots."""

PROXY_PORT = 3128
"""Port of the proxy on a run's loopback interface, if it has one."""


class RunLayout(NamedTuple):
    """The private folders of a run."""

    workspace: str
    temporary: str
    shared_memory: str


LAYOUT = RunLayout("/workspace", "/tmp", "/dev/shm")  # noqa: S108 - private mounts of the run
"""Their paths in the full tier."""


class Configuration(NamedTuple):
    """How the zygotes of this service confine their runs.

    ``root`` is an empty folder for the minimal root, which shows the host paths ``visible`` read-
    only and gets ``links`` and ``files``. Programs may read and execute what is in ``readable`` and
    also write to ``writable``. ``host_user`` is the first of the slots' user ids on the host, None
    if the service is not root and they keep its own. ``seccomp`` is the filter, sent separately.
    ``sampled_crowds``: slots end fork bombs, as no control group keeps them from starving others.
    Runs that are ``proxied`` hand over a socket listening on `PROXY_PORT`. Sizes are bytes.
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
    sampled_crowds: bool
    proxied: bool = False

    @property
    def covered(self) -> list[str]:
        """Visible paths that a run's private mounts would cover."""
        return [path for path in self.visible if path.startswith(tuple(f"{p}/" for p in LAYOUT))]

    @property
    def samples_processes(self) -> bool:
        """Whether slots must look at the processes of their runs."""
        return self.sampled_memory or self.sampled_crowds

    @property
    def sampled(self) -> bool:
        """Whether slots must sample usage because the kernel does not bound all of it."""
        return self.samples_processes or self.tier == "container"
