"""The command line of the core environment's installer."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from infra.core.environment import CoreEnvironment
from infra.debian import PackagesUnavailable
from infra.runtimes.installer.command import announcement
from infra.runtimes.installer.lock import LockTimeout, exclusive
from infra.runtimes.installer.process import CommandFailed
from infra.runtimes.installer.progress import Progress
from infra.runtimes.installer.uv import count_requirements

REPOSITORY = Path(__file__).resolve().parents[2]
LOCK_SECONDS = 1800.0
LOG_LINES = 20
DOWNLOAD_MEGABYTES = 110


def main(arguments: Sequence[str] | None = None, repository: Path = REPOSITORY) -> int:
    """Create or update ``.venv`` of ``repository``; return 0, or 1 when that failed."""
    signal.signal(signal.SIGTERM, _terminated)
    parser = argparse.ArgumentParser(
        prog="environment.py", description="Install Temper's core environment into .venv."
    )
    parser.add_argument("--dev", action="store_true", help="with the tools of the tests")
    parser.add_argument(
        "--announce",
        nargs="+",
        default=[],
        metavar="RUNTIME",
        help="say what will be installed, with these runtimes, before anything starts",
    )
    options = parser.parse_args(arguments)
    dev = options.dev
    state = repository / ".temper"
    log = state / "environment.log"
    progress = Progress("core environment", sys.stdout)
    environment = CoreEnvironment(repository, repository / ".venv", log, progress)
    try:
        if options.announce:
            _announce(environment, options.announce)
        state.mkdir(exist_ok=True)
        progress.end(_install(environment, state / "environment.lock", progress, dev=dev))
    except (LockTimeout, PackagesUnavailable) as error:
        progress.end(f"not installed: {error}")
        return 1
    except (CommandFailed, OSError) as error:
        progress.end(f"not installed: {error}")
        _print_end_of(log)
        return 1
    except KeyboardInterrupt:
        progress.end("interrupted; the next run starts it again")
        return 130
    return 0


def _announce(environment: CoreEnvironment, runtimes: Sequence[str]) -> None:
    """Print what this installation and that of ``runtimes`` after it will download."""
    lines = announcement(runtimes)
    if environment.missing_steps(dev=False):
        packages = count_requirements(REPOSITORY / "infra" / "requirements" / "core.txt")
        size = f"{packages} packages, about {DOWNLOAD_MEGABYTES} MB to download"
        lines.insert(0, f"core environment: {size}: services and command line")
    if lines:
        print("To be installed into .venv and .temper:", *lines, sep="\n  ", flush=True)


def _install(
    environment: CoreEnvironment, lock_file: Path, progress: Progress, *, dev: bool
) -> str:
    if not environment.missing_steps(dev=dev):
        return "ready, reused"
    with exclusive(lock_file, LOCK_SECONDS, progress.show) as lock:
        steps = environment.missing_steps(dev=dev)
        if not steps:  # another process has just installed it
            return "ready, reused"
        return environment.install(steps, lock)


def _print_end_of(log: Path) -> None:
    if log.exists():
        text = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(f"--- end of {log}", *text[-LOG_LINES:], "---", sep="\n", flush=True)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
