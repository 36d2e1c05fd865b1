"""Real Redis and PostgreSQL servers for a test, on free ports, with scratch folders."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from tests.support.processes import STOP_SECONDS, free_port
from tests.support.waiting import wait_for

POSTGRES_FOLDERS = "/usr/lib/postgresql/*/bin"


@contextlib.contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """A Redis without persistence; yields its URL."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    port = free_port()
    command = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    with open(folder / "redis.log", "ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(lambda: _redis_answers(port), "redis answers")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(STOP_SECONDS)


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """A PostgreSQL with an empty database; yields its SQLAlchemy URL."""
    # Not in pytest's folders, which other accounts than the user's own cannot enter.
    with tempfile.TemporaryDirectory(prefix="temper-postgres-") as folder:
        yield from _postgres_in(Path(folder))


def _postgres_in(folder: Path) -> Iterator[str]:
    programs = sorted(Path("/").glob(POSTGRES_FOLDERS.lstrip("/")))
    if not programs:
        pytest.skip("PostgreSQL is not installed")
    data, port = folder / "data", free_port()
    account = _unprivileged_account()
    if account is not None:
        os.chown(folder, account, -1)
    # trust: only loopback, only for the length of a test.
    setup = [str(programs[-1] / "initdb"), "-D", str(data), "-U", "temper", "-A", "trust"]
    subprocess.run(setup, check=True, user=account, capture_output=True, cwd=folder)
    options = ["-p", str(port), "-h", "127.0.0.1", "-k", str(folder), "-c", "fsync=off"]
    with open(folder / "postgres.log", "ab") as log:
        server = subprocess.Popen(
            [str(programs[-1] / "postgres"), "-D", str(data), *options],
            stdout=log,
            stderr=log,
            user=account,
            cwd=folder,
            start_new_session=True,
        )
    try:
        address = f"temper@127.0.0.1:{port}/postgres"
        wait_for(lambda: _postgres_answers(f"postgresql://{address}"), "PostgreSQL answers")
        yield f"postgresql+psycopg://{address}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(STOP_SECONDS)


def _redis_answers(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return bool(client.ping())
    except (redis.ConnectionError, redis.TimeoutError):
        return False


def _postgres_answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _unprivileged_account() -> int | None:
    """PostgreSQL refuses to run as root; find another account."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    return None
