"""Azurite, an emulator of Azure Blob Storage, for the tests of synchronized logs."""

import shutil
import tempfile
from pathlib import Path

from infra.debian import PackagesUnavailable
from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress
from infra.testing.compose import TOOLS

LOCKED = Path(__file__).with_name("azurite")
PROGRAM = TOOLS / "azurite" / "node_modules" / ".bin" / "azurite-blob"
FETCH_SECONDS = 600.0


def has_azurite() -> bool:
    """Whether the locked release has been fetched."""
    lock = TOOLS / "azurite" / "package-lock.json"
    wanted = LOCKED / "package-lock.json"
    return PROGRAM.exists() and lock.read_bytes() == wanted.read_bytes()


def fetch_azurite(log: Path, lock: int, progress: Progress) -> None:
    """Fetch the locked release; raises `PackagesUnavailable`."""
    npm = shutil.which("npm")
    if npm is None:
        raise PackagesUnavailable("npm is not installed")
    progress.show("fetching the npm package")
    TOOLS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS.resolve(), prefix="fetch-") as scratch:
        target = Path(scratch) / "content"
        shutil.copytree(LOCKED, target)
        # No scripts: they build bindings that the emulator does not need for blobs.
        command = [
            npm,
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(target),
        ]
        try:
            run_logged(command, log=log, lock=lock, limit=FETCH_SECONDS, tick=lambda: None)
        except CommandFailed as error:
            raise PackagesUnavailable(f"npm could not fetch it ({error}); see {log}") from error
        shutil.rmtree(TOOLS / "azurite", ignore_errors=True)
        target.rename(TOOLS / "azurite")
