"""The package verl, whose own modules call the sandbox in tests."""

import shutil
import sys
import tempfile
from pathlib import Path

from infra.debian import PackagesUnavailable
from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress
from infra.testing.compose import TOOLS

REQUIREMENT = Path(__file__).with_suffix(".txt")
FETCH_SECONDS = 300.0


def verl_folder() -> Path:
    """Where the pinned release is, or will be."""
    pin = next(line for line in REQUIREMENT.read_text().splitlines() if line.startswith("verl=="))
    return TOOLS / pin.split()[0].replace("==", "-")


def has_verl() -> bool:
    """Whether the pinned release has been fetched."""
    return verl_folder().is_dir()


def fetch_verl(log: Path, lock: int, progress: Progress) -> None:
    """Fetch the pinned release without dependencies; raises `PackagesUnavailable`."""
    progress.show("fetching the package")
    TOOLS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS, prefix="fetch-") as scratch:
        target = Path(scratch) / "content"
        command = [
            *(sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--no-input"),
            *("--only-binary", ":all:", "--require-hashes", "--requirement", str(REQUIREMENT)),
            *("--target", str(target), "--disable-pip-version-check", "--progress-bar", "off"),
        ]
        try:
            run_logged(command, log=log, lock=lock, limit=FETCH_SECONDS, tick=lambda: None)
        except CommandFailed as error:
            raise PackagesUnavailable(f"pip could not fetch it ({error}); see {log}") from error
        for earlier in TOOLS.glob("verl-*"):
            shutil.rmtree(earlier)
        target.rename(verl_folder())
