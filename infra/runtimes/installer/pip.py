"""Installing pinned packages with a runtime's own pip, and how far it has come."""

import re
from dataclasses import dataclass
from pathlib import Path

from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress

PIP_SECONDS = 7200.0
# A lock is complete, so pip resolves nothing; byte code is made afterwards, on all cores.
INSTALL = ("install", "--no-deps", "--no-compile", "--no-input", "--no-color")
QUIET = ("--progress-bar", "off", "--disable-pip-version-check")

_FETCHED = re.compile(r"\s*(?:Downloading|Using cached) \S+ \(([\d.]+) (k?B|MB|GB)\)")
_BEGUN = re.compile(r"(?:Collecting|Processing) ")
_IGNORED = re.compile(r"Ignoring \S+ markers ")
_UNIT = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


@dataclass
class Packages:
    """How far an install has come, in packages of all its steps together and megabytes."""

    total: int
    fetched: int = 0
    installed: int = 0
    megabytes: float = 0.0
    installing: bool = False

    def read(self, line: str) -> None:
        """Learn from one line that pip wrote."""
        if _BEGUN.match(line):
            self.fetched += 1
            self.installing = False
        elif _IGNORED.match(line):
            self.total -= 1
        elif line.startswith("Installing collected packages"):
            self.installing = True
        elif size := _FETCHED.match(line):
            self.megabytes += float(size[1]) * _UNIT[size[2]]

    def show(self, progress: Progress) -> None:
        """Show it, with the phase it is in."""
        done = self.installed if self.installing else self.fetched
        detail = f"{min(done, self.total)}/{self.total} packages, {self.megabytes:.0f} MB"
        progress.show("installing" if self.installing else "downloading", detail)


@dataclass(frozen=True)
class Pip:
    """The pip of one environment."""

    python: Path
    site_packages: Path
    log: Path
    lock: int
    progress: Progress
    packages: Packages

    def install(self, *arguments: str) -> None:
        """Install without dependencies; raises `CommandFailed`, saying what pip complained of."""
        command = [str(self.python), "-m", "pip", *INSTALL, *QUIET, *arguments]
        before = self._distributions() - self.packages.installed
        try:
            run_logged(
                command,
                log=self.log,
                lock=self.lock,
                limit=PIP_SECONDS,
                tick=lambda: self._tick(before),
                line=self.packages.read,
            )
        except CommandFailed as error:
            complaints = [text for text in error.last_lines if text.startswith("ERROR: ")]
            reason = complaints[-1].removeprefix("ERROR: ") if complaints else str(error)
            raise CommandFailed(f"pip: {reason}", error.last_lines) from None
        self._tick(before)

    def _tick(self, before: int) -> None:
        self.packages.installed = self._distributions() - before
        self.packages.show(self.progress)

    def _distributions(self) -> int:
        return sum(1 for _ in self.site_packages.glob("*.dist-info"))


def count_requirements(lock: Path) -> int:
    """Number of requirements in a lock file, also of those for other platforms."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    return sum(1 for line in lines if re.match(r"[A-Za-z0-9]", line))
