"""Installing pinned packages with uv, configured like pip, and its progress."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress

REQUIREMENT = "uv==0.13.9"
"""Installed with pip where no uv is beside the Python that runs the installer."""

INSTALL_SECONDS = 7200.0
CONFIGURATION_SECONDS = 60.0
# A lock is complete, so nothing is resolved. Every package may come from every index, as with pip.
INSTALL = ("pip", "install", "--no-deps", "--no-config", "--index-strategy=unsafe-best-match")

_BESIDE = Path(sys.executable).with_name("uv")
_DOWNLOADED = re.compile(r"\s*Downloading \S+ \(([\d.]+)([KMG]iB)\)")
_MEGABYTES = {"KiB": 1.024e-3, "MiB": 1.048576, "GiB": 1073.74}
_ELSEWHERE = re.compile(r"sys_platform == '(?:win32|darwin)'")
_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
_FLAGS = {"no-index": "--no-index", "no-cache-dir": "--no-cache"}
_VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT"}


@dataclass
class Packages:
    """Progress of an installation, over all of its steps."""

    total: int
    installed: int = 0
    megabytes: float = 0.0
    installing: bool = False

    def read(self, line: str) -> None:
        """Update from one line of uv's output."""
        if size := _DOWNLOADED.match(line):
            self.megabytes += float(size[1]) * _MEGABYTES[size[2]]
            self.installing = False
        elif line.startswith("Prepared "):
            self.installing = True

    def show(self, progress: Progress) -> None:
        """Show it, with the phase it is in."""
        detail = f"{min(self.installed, self.total)}/{self.total} packages"
        if self.megabytes:
            detail += f", {self.megabytes:.0f} MB"
        progress.show("installing" if self.installing else "downloading", detail)


@dataclass(frozen=True)
class Uv:
    """A uv that installs into the environment of ``python``."""

    program: Path
    python: Path
    site_packages: Path
    log: Path
    lock: int
    progress: Progress
    packages: Packages

    def install(self, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        """Install without dependencies; raises `CommandFailed` with uv's complaint."""
        options, environment = pip_configuration(self.program.with_name("python"))
        command = [str(self.program), *INSTALL, "--python", str(self.python), *options, *arguments]
        before = self._distributions() - self.packages.installed
        try:
            run_logged(
                command,
                log=self.log,
                lock=self.lock,
                limit=INSTALL_SECONDS,
                tick=lambda: self._tick(before),
                line=self.packages.read,
                variables={**environment, **(variables or {})},
            )
        except CommandFailed as error:
            raise CommandFailed(f"uv: {_complaint(error)}", error.last_lines) from None
        self._tick(before)

    def _tick(self, before: int) -> None:
        self.packages.installed = self._distributions() - before
        self.packages.show(self.progress)

    def _distributions(self) -> int:
        return sum(1 for _ in self.site_packages.glob("*.dist-info"))


def has_uv() -> bool:
    """Whether there is a uv beside the running Python, as in the core environment."""
    return _BESIDE.exists()


def provide_uv(python: Path, log: Path, lock: int, progress: Progress) -> Path:
    """The uv beside the running Python, or else one installed beside ``python`` with pip."""
    if has_uv():
        return _BESIDE
    command = (str(python), "-m", "pip", "install", "--no-deps", "--no-input", REQUIREMENT)
    run_logged(
        command,
        log=log,
        lock=lock,
        limit=INSTALL_SECONDS,
        tick=lambda: progress.show(f"installing {REQUIREMENT}"),
    )
    return python.with_name("uv")


@cache
def pip_configuration(python: Path) -> tuple[list[str], dict[str, str]]:
    """The options and environment variables with which uv finds packages where pip would."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(
        command, capture_output=True, text=True, timeout=CONFIGURATION_SECONDS, check=False
    )
    return translate(listed.stdout, os.environ)


def translate(listed: str, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Translate what ``pip config list`` prints; pip's variables overrule its files."""
    options: list[str] = []
    variables: dict[str, str] = {}
    values: dict[str, str] = {}
    # :env: sorts before the sections of files, and so comes last.
    for line in sorted(listed.splitlines(), reverse=True):
        key, separator, value = line.partition("=")
        if separator:
            name = key.rpartition(".")[2].removeprefix("default-")
            values[name] = str(ast.literal_eval(value))
    for name, value in values.items():
        if name in _OPTIONS:
            options += [word for each in value.split() for word in (_OPTIONS[name], each)]
        elif name in _FLAGS and value.lower() in {"1", "true", "yes", "on"}:
            options.append(_FLAGS[name])
        elif name in _VARIABLES and _VARIABLES[name] not in environment:
            variables[_VARIABLES[name]] = value
    return options, variables


def count_requirements(lock: Path) -> int:
    """Number of requirements in a lock file that apply to Linux."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    return sum(
        1
        for line in lines
        if re.match(r"[A-Za-z0-9](?!.*sys_platform == '(?:win32|darwin)')", line)
    )


def _complaint(error: CommandFailed) -> str:
    """What uv says is wrong, on one line."""
    lines = [line.strip(" ×╰─▶├│") for line in error.last_lines]  # noqa: RUF001 - uv's drawing
    starts = [n for n, line in enumerate(error.last_lines) if re.match(r"error: |\s*×", line)]  # noqa: RUF001 - the sign that uv prints
    told = " ".join(lines[starts[-1] :]) if starts else ""
    return told.removeprefix("error: ") or str(error)
