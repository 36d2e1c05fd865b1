"""The Redis server that tests of the second broker start for themselves."""

import shutil
from pathlib import Path

from infra.debian import disable_service, install_packages
from infra.runtimes.installer.progress import Progress


def has_redis() -> bool:
    """Whether tests can start a Redis server."""
    return shutil.which("redis-server") is not None


def install_redis(log: Path, lock: int, progress: Progress) -> None:
    """Install the system's Redis server; raises `PackagesUnavailable`.

    The service that its package starts is switched off again: tests start servers of their own.
    """
    install_packages(["redis-server"], log, lock, progress)
    disable_service("redis-server", log, lock)
