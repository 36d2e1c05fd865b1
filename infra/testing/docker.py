"""The Docker engine that tests of the compose file start."""

import shutil
from contextlib import suppress
from pathlib import Path

from infra.debian import PackagesUnavailable, disable_service, install_packages
from infra.runtimes.installer.progress import Progress


def has_engine() -> bool:
    """Whether an engine, its client, and what makes base images without a registry are here."""
    return all(shutil.which(program) for program in ("dockerd", "docker", "debootstrap"))


def install_engine(log: Path, lock: int, progress: Progress) -> None:
    """Install the distribution's engine; raises `PackagesUnavailable`.

    The service that its package starts is disabled again: tests start their own engines.
    """
    if shutil.which("debootstrap") is None:
        install_packages(["debootstrap"], log, lock, progress)
    if shutil.which("dockerd") is None:
        install_packages(["docker.io"], log, lock, progress)
        for unit in ("docker.socket", "docker"):
            disable_service(unit, log, lock)
    if shutil.which("docker") is None:  # a package of its own in later releases
        with suppress(PackagesUnavailable):
            install_packages(["docker-cli"], log, lock, progress)
    if not has_engine():
        raise PackagesUnavailable("the distribution's packages brought no engine with a client")
