"""Supervision of a real encoder process, whose model counts letters."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.core.process.runtimes import RuntimeMissing
from services.retrieval.encoder import process as process_module
from services.retrieval.encoder import supervisor as supervisor_module
from services.retrieval.encoder.client import BlockingEncoderClient
from services.retrieval.encoder.errors import EncoderUnavailable, EncoderUnusable
from services.retrieval.encoder.process import EncoderProcess
from services.retrieval.encoder.specification import EncoderSpecification, TextKind
from tests.support.runtime.stand_in import add_runtime
from tests.support.search.encoder_child import DIMENSION
from tests.support.waiting import wait_for

WAIT = 60.0


@pytest.fixture
def runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a runtime ``encoder`` whose Python is this one."""
    program = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    add_runtime(tmp_path / "runtimes", "encoder", program)
    monkeypatch.setattr(process_module, "CHILD", "tests.support.search.encoder_child")
    return tmp_path / "runtimes"


@contextmanager
def running(runtimes: Path, model: str, **options: float) -> Iterator[EncoderProcess]:
    specification = EncoderSpecification(model=model)
    log = runtimes.parent / "encoder.log"
    with EncoderProcess(specification, runtimes=runtimes, log=log, **options) as process:
        yield process


def pid_of(process: EncoderProcess) -> int:
    """The id of the running process, waiting out a restart."""
    return wait_for(lambda: process.pid, "a process", WAIT)


def lives(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def encode(process: EncoderProcess, text: str) -> tuple[int, ...]:
    with BlockingEncoderClient(process.socket) as client:
        vectors = client.encode([text], TextKind.QUERY, deadline=time.monotonic() + WAIT)
    return vectors.shape


def test_an_encoder_describes_itself_and_encodes(runtimes: Path) -> None:
    with running(runtimes, "letters") as process:
        assert process.wait_ready(WAIT).dimension == DIMENSION
        assert process.problem is None
        assert encode(process, "text") == (1, DIMENSION)


def test_a_killed_encoder_restarts_and_calls_wait_for_it(runtimes: Path) -> None:
    with running(runtimes, "letters") as process:
        process.wait_ready(WAIT)
        os.kill(pid_of(process), signal.SIGKILL)

        assert encode(process, "text") == (1, DIMENSION)
        assert process.restarts == 1


@pytest.mark.drill
def test_a_text_that_crashes_the_encoder_is_not_retried_forever(runtimes: Path) -> None:
    with running(runtimes, "letters") as process:
        process.wait_ready(WAIT)
        with pytest.raises(EncoderUnavailable):
            encode(process, "die")

        assert encode(process, "text") == (1, DIMENSION)


@pytest.mark.drill
def test_a_hanging_encoder_is_restarted(runtimes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(runtimes, "letters") as process:
        process.wait_ready(WAIT)
        stopped = pid_of(process)
        os.kill(stopped, signal.SIGSTOP)
        # Not before: one that is only slow would be taken for one that hangs.
        monkeypatch.setattr(supervisor_module, "CHECK_SECONDS", 0.1)
        monkeypatch.setattr(supervisor_module, "SILENT_SECONDS", 0.5)

        wait_for(lambda: process.pid not in (None, stopped), "another encoder", WAIT)
        assert not lives(stopped)


def test_an_unloadable_model_is_reported_immediately(runtimes: Path) -> None:
    with running(runtimes, "missing") as process:
        with pytest.raises(EncoderUnusable, match="there is no such model"):
            process.wait_ready(WAIT)
        assert "there is no such model" in str(process.problem)


def test_an_encoder_that_never_gets_ready_is_restarted(runtimes: Path) -> None:
    with running(runtimes, "slow", start_seconds=0.5) as process:
        with pytest.raises(EncoderUnavailable):
            process.wait_ready(0.1)
        wait_for(lambda: process.restarts, "another start", WAIT)


def test_close_removes_process_and_folder(runtimes: Path) -> None:
    with running(runtimes, "letters") as process:
        process.wait_ready(WAIT)
        pid = pid_of(process)
        folder = process.socket.parent
        assert folder.stat().st_mode & 0o077 == 0

    assert not lives(pid)
    assert not folder.exists()
    process.close()


OWNER = """
import os, signal, sys
from pathlib import Path
from services.retrieval.encoder import process as process_module
from services.retrieval.encoder.specification import EncoderSpecification
process_module.CHILD = "tests.support.search.encoder_child"
specification = EncoderSpecification(model="letters")
log = Path(sys.argv[1], "..", "encoder.log")
process = process_module.EncoderProcess(specification, runtimes=Path(sys.argv[1]), log=log)
process.start().wait_ready(60)
print(process.pid, process.socket, flush=True)
signal.pause()
"""


def test_the_encoder_dies_with_its_owner(runtimes: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(runtimes)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid, socket = owner.stdout.readline().split()
        owner.kill()

    wait_for(lambda: not lives(int(pid)), "the end of the encoder", WAIT)
    wait_for(lambda: not Path(socket).parent.exists(), "the end of its folder", WAIT)


def test_a_missing_runtime_error_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeMissing, match=r"install\.py encoder"):
        EncoderProcess(EncoderSpecification(), runtimes=tmp_path, log=tmp_path / "log")
