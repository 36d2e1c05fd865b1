"""System packages of Debian and Ubuntu, where Python packages are not enough."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress

INSTALL_SECONDS = 900.0
PROBE_SECONDS = 10.0
SERVICE_SECONDS = 60.0
# Another apt may be at work, an unattended upgrade for one.
OPTIONS = ("-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")


class PackagesUnavailable(Exception):
    """A system package cannot be installed; the message has the reason and a remedy."""


def install_packages(
    names: Sequence[str], log: Path, lock: int, progress: Progress | None = None
) -> None:
    """Install system packages, as root or with passwordless sudo.

    Raises `PackagesUnavailable`. ``lock`` is inherited by apt, whose output goes to ``log``.
    """
    wanted = " ".join(names)
    command = f"apt-get install {wanted}"
    if shutil.which("apt-get") is None:
        raise PackagesUnavailable(f"there is no apt-get to install {wanted} with; install it")
    root = as_root()
    if root is None:
        raise PackagesUnavailable(f"installing it needs root: sudo {command}")
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *OPTIONS]
    install = [*apt, "install", "--yes", "--no-install-recommends", *names]

    def tick() -> None:
        if progress is not None:
            progress.show(f"installing the system's package {wanted}")

    failure = "nothing was tried"
    for step in ([*apt, "update"], install):
        try:
            run_logged(step, log=log, lock=lock, limit=INSTALL_SECONDS, tick=tick)
            failure = ""
        except CommandFailed as error:  # an install may succeed after a failed update
            failure = str(error)
    if failure:
        raise PackagesUnavailable(f"`{command}` {failure}; see {log}")


def as_root() -> list[str] | None:
    """The prefix that runs a command as root; None without root or passwordless sudo."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    asked = subprocess.run(
        [sudo, "-n", "true"], capture_output=True, timeout=PROBE_SECONDS, check=False
    )
    return [sudo, "-n"] if asked.returncode == 0 else None


def disable_service(name: str, log: Path, lock: int) -> None:
    """Stop and disable a service that a package has just started."""
    command = ["service", name, "stop"]
    if Path("/run/systemd/system").is_dir():
        command = ["systemctl", "disable", "--now", name]
    # Without an init system, as in a container, no service was started.
    with suppress(CommandFailed):
        run_logged(
            [*(as_root() or []), *command],
            log=log,
            lock=lock,
            limit=SERVICE_SECONDS,
            tick=lambda: None,
        )
