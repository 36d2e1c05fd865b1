"""Puts a pool together: what isolation gives, what the operator set, what toolchains need."""

from collections.abc import Iterable
from pathlib import Path

from services.contracts.errors import ConfigurationError
from services.sandbox.guest.layout import USER, Configuration
from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import Isolation
from services.sandbox.network.proxy import Network
from services.sandbox.pool import layout
from services.sandbox.pool.capacity import Capacity
from services.sandbox.pool.folders import make_folder
from services.sandbox.pool.pool import Pool

_BYTES_OF_A_FILE = 8 << 10


def create_pool(
    python: Path,
    isolation: Isolation,
    cgroups: Cgroups,
    capacity: Capacity,
    toolchains: Iterable[str] = (),
    network: Network | None = None,
    devices: Iterable[str] = (),
) -> Pool:
    """A pool that runs ``python``; ``toolchains`` are further paths that programs may see and
    ``devices`` further ones that they may use; ``network``, in the full tier, what they may reach.

    Raises `ConfigurationError` when programs could not reach the interpreter.
    """
    full = isolation.tier is Tier.FULL
    first_user = USER if full else isolation.first_user
    visible = layout.visible_paths(python, toolchains)
    usable = [*layout.DEVICES, *devices]
    if not full:
        _check_reachable(visible)
    configuration = Configuration(
        tier=isolation.tier.value,
        root=str(make_folder()),
        visible=visible,
        readable=["/"] if full else [*visible, *layout.SYSTEM, *layout.PROCESS_INFORMATION],
        # In the minimal root /dev holds the devices and shared memory alone.
        writable=["/dev", "/proc"] if full else usable,
        links=layout.links(),
        files=layout.FILES,
        devices=usable,
        host_user=isolation.first_user,
        seccomp=isolation.seccomp_filter,
        scoped=isolation.scoped,
        disk_bytes=capacity.disk_bytes,
        inodes=capacity.disk_bytes // _BYTES_OF_A_FILE,
        processes=capacity.processes,
        open_files=capacity.open_files,
        sampled_memory=not isolation.memory_counted,
        proxied=network is not None,
    )
    return Pool(
        python,
        configuration,
        cgroups,
        first_user=None if isolation.first_user is None else first_user,
        capacity=capacity,
        network=network,
    )


def _check_reachable(paths: Iterable[str]) -> None:
    for path in map(Path, paths):
        closed = [str(folder) for folder in path.parents if not folder.stat().st_mode & 0o001]
        if closed:
            raise ConfigurationError(
                f"programs run as users of their own and cannot reach {path}: "
                f"{closed[-1]} is closed to others"
            )
