"""The Redis server that tests of the Redis broker start."""

import shutil
from pathlib import Path

from infra.debian import disable_service, install_packages
from infra.runtimes.installer.progress import Progress


def has_redis() -> bool:
    """Whether tests can start a Redis server."""
    return shutil.which("redis-server") is not None


def install_redis(log: Path, lock: int, progress: Progress) -> None:
    """Install the system's Redis server; raises `PackagesUnavailable`.

    The service that its package starts is disabled again: tests start their own servers.
    """
    install_packages(["redis-server"], log, lock, progress)
    disable_service("redis-server", log, lock)
