"""The command line of the core environment's installer."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from infra.core.environment import CoreEnvironment
from infra.debian import PackagesUnavailable
from infra.runtimes.installer.lock import LockTimeout, exclusive
from infra.runtimes.installer.process import CommandFailed
from infra.runtimes.installer.progress import Progress

REPOSITORY = Path(__file__).resolve().parents[2]
LOCK_SECONDS = 1800.0
LOG_LINES = 20


def main(arguments: Sequence[str] | None = None, repository: Path = REPOSITORY) -> int:
    """Make ``.venv`` of ``repository`` what it should be; return 0, or 1 when that failed."""
    signal.signal(signal.SIGTERM, _terminated)
    parser = argparse.ArgumentParser(
        prog="environment.py", description="Install Temper's core environment into .venv."
    )
    parser.add_argument("--dev", action="store_true", help="with the tools of the tests")
    dev = parser.parse_args(arguments).dev
    state = repository / ".temper"
    log = state / "environment.log"
    progress = Progress("core environment", sys.stdout)
    environment = CoreEnvironment(repository, repository / ".venv", log, progress)
    try:
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


def _install(
    environment: CoreEnvironment, lock_file: Path, progress: Progress, *, dev: bool
) -> str:
    if not environment.missing_steps(dev=dev):
        return "ready, reused"
    with exclusive(lock_file, LOCK_SECONDS, progress.show) as lock:
        steps = environment.missing_steps(dev=dev)
        if not steps:  # made by the one we waited for
            return "ready, reused"
        return environment.install(steps, lock)


def _print_end_of(log: Path) -> None:
    if log.exists():
        text = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(f"--- end of {log}", *text[-LOG_LINES:], "---", sep="\n", flush=True)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
