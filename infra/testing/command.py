"""The command line of the tests' installer."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from infra.debian import PackagesUnavailable
from infra.runtimes.installer.lock import LockTimeout, exclusive
from infra.runtimes.installer.progress import Progress
from infra.testing.azurite import fetch_azurite, has_azurite
from infra.testing.chromium import has_chromium, install_chromium
from infra.testing.compose import compose_command, fetch_compose
from infra.testing.corpora import fetch_corpora, has_corpora
from infra.testing.docker import has_engine, install_engine
from infra.testing.languages import has_languages, install_languages
from infra.testing.redis import has_redis, install_redis
from infra.testing.verl import fetch_verl, has_verl

STATE = Path(__file__).resolve().parents[2] / ".temper"
LOCK_SECONDS = 1800.0

Install = Callable[[Path, int, Progress], None]


def main() -> int:
    """Install what is missing; return 1 under CI when something stays missing, else 0."""
    parser = argparse.ArgumentParser(description="Install what the tests need.")
    parser.add_argument(
        "--languages", action="store_true", help="the compilers of the sandbox's languages, too"
    )
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    STATE.mkdir(exist_ok=True)
    log = STATE / "testing.log"
    complete = True
    try:
        with exclusive(
            STATE / "testing.lock", LOCK_SECONDS, Progress("tests", sys.stdout).show
        ) as lock:
            log.write_bytes(b"")
            complete &= _provide("redis-server", has_redis, install_redis, log, lock)
            complete &= _provide("chromium", has_chromium, install_chromium, log, lock)
            complete &= _provide("docker compose", _has_compose, fetch_compose, log, lock)
            complete &= _provide("verl", has_verl, fetch_verl, log, lock)
            complete &= _provide("corpora", has_corpora, fetch_corpora, log, lock)
            # A machine need not be able to have an engine, nor npm for the one test that needs it.
            _provide("docker engine", has_engine, install_engine, log, lock)
            _provide("azurite", has_azurite, fetch_azurite, log, lock)
            if chosen.languages:
                complete &= _provide("languages", has_languages, install_languages, log, lock)
    except LockTimeout as error:
        print(f"tests: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if complete or not os.environ.get("CI") else 1


def _provide(
    name: str, is_there: Callable[[], bool], install: Install, log: Path, lock: int
) -> bool:
    """Provide one dependency and report the outcome."""
    progress = Progress(name, sys.stdout)
    if is_there():
        progress.end("ready, reused")
        return True
    try:
        install(log, lock, progress)
    except PackagesUnavailable as error:
        progress.end(f"missing, tests that need it are skipped: {error}")
        return False
    progress.end("ready")
    return True


def _has_compose() -> bool:
    return compose_command() is not None


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
