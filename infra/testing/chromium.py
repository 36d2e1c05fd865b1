"""The browser that tests of the dashboard drive."""

import shutil
from pathlib import Path

from infra.debian import install_packages
from infra.runtimes.installer.progress import Progress


def has_chromium() -> bool:
    """Whether tests can start Chromium."""
    return shutil.which("chromium") is not None


def install_chromium(log: Path, lock: int, progress: Progress) -> None:
    """Install the system's Chromium; raises `PackagesUnavailable`."""
    install_packages(["chromium"], log, lock, progress)
