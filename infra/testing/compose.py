"""Docker Compose, where Docker is not installed or too old to have it.

Checking a compose file needs only the plugin's program, no Docker engine. It is taken out of the
distribution's package, without root and without changing the system.
"""

import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from infra.debian import PackagesUnavailable
from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress
from infra.testing.apt import private_apt

TOOLS = Path(__file__).resolve().parents[2] / ".temper" / "tools"
FETCHED = TOOLS / "docker-compose"
OLDEST = (2, 24)
"""The first release in which a file of variables may be missing."""
PROBE_SECONDS = 20.0
STEP_SECONDS = 180.0


@dataclass(frozen=True)
class Source:
    """Where a distribution has the program; ``{}`` stands for the machine's own release."""

    suites: tuple[str, ...]
    component: str
    package: str
    keyring: str


SOURCES = {
    # Debian 12 has only Compose v1. The program of a later release needs only libc.
    "debian": Source(
        suites=("trixie",),
        component="main",
        package="docker-compose",
        keyring="/usr/share/keyrings/debian-archive-keyring.gpg",
    ),
    "ubuntu": Source(
        suites=("{}", "{}-updates"),
        component="universe",
        package="docker-compose-v2",
        keyring="/usr/share/keyrings/ubuntu-archive-keyring.gpg",
    ),
}


def compose_command() -> list[str] | None:
    """The command of Docker Compose; None if it is missing or too old."""
    docker = shutil.which("docker")
    candidates = [[docker, "compose"]] if docker else []
    candidates += [[str(path)] for path in _programs(FETCHED)]
    for command in candidates:
        asked = subprocess.run(
            [*command, "version", "--short"],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
        if asked.returncode == 0 and is_recent(asked.stdout):
            return command
    return None


def is_recent(version: str) -> bool:
    """Whether a version, such as ``2.26.1-4`` or ``v2.24.0``, reads the compose file."""
    found = re.match(r"v?(\d+)\.(\d+)", version.strip())
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST


def fetch_compose(log: Path, lock: int, progress: Progress) -> None:
    """Fetch the program; raises `PackagesUnavailable`."""
    system = platform.freedesktop_os_release()
    source = SOURCES.get(system.get("ID", ""))
    apt_get = shutil.which("apt-get")
    if source is None or apt_get is None:
        name = system.get("PRETTY_NAME", "this system")
        raise PackagesUnavailable(f"it is fetched on Debian and Ubuntu only, and this is {name}")
    release = system.get("VERSION_CODENAME", "")
    archive = archive_of(_configured_indexes(apt_get), release)
    if archive is None:
        raise PackagesUnavailable(f"apt's configuration names no archive of {release}")
    TOOLS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS, prefix="fetch-") as name:
        scratch = Path(name)
        sources = scratch / "sources.list"
        sources.write_text(source_lines(source, archive, release), encoding="utf-8")
        apt = private_apt(
            scratch, {"Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "/dev/null"}
        )
        steps = (
            [*apt, "update"],
            [*apt, "download", source.package],
        )
        try:
            for step in steps:
                progress.show("fetching the distribution's package")
                run_logged(step, log=log, lock=lock, limit=STEP_SECONDS, tick=lambda: None)
            (package,) = scratch.glob("*.deb")
            unpack = ["dpkg-deb", "-x", str(package), str(scratch / "content")]
            run_logged(unpack, log=log, lock=lock, limit=STEP_SECONDS, tick=lambda: None)
        except (CommandFailed, OSError, ValueError) as error:
            raise PackagesUnavailable(
                f"{source.package} of {archive} could not be fetched ({error}); see {log}"
            ) from error
        shutil.rmtree(FETCHED, ignore_errors=True)
        (scratch / "content").rename(FETCHED)


def archive_of(indexes: str, release: str) -> str | None:
    """The archive of ``release`` in the output of ``apt-get update --print-uris``, if any."""
    found = re.search(rf"'(\S+?)/+dists/{re.escape(release)}/(?:In)?Release'", indexes)
    return found[1] if found else None


def source_lines(source: Source, archive: str, release: str) -> str:
    """The lines of a sources.list for ``source``."""
    signed = f"[signed-by={source.keyring}] " if Path(source.keyring).exists() else ""
    suites = [suite.format(release) for suite in source.suites]
    return "".join(f"deb {signed}{archive} {suite} {source.component}\n" for suite in suites)


def _configured_indexes(apt_get: str) -> str:
    asked = subprocess.run(
        [apt_get, "update", "--print-uris"],
        capture_output=True,
        timeout=PROBE_SECONDS,
        check=False,
        text=True,
    )
    return asked.stdout


def _programs(folder: Path) -> list[Path]:
    return sorted(folder.glob("usr/lib*/docker/cli-plugins/docker-compose"))
