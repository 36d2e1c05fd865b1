"""Index commands without a stack leave no process behind."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from temper import indexing
from temper.settings import ClientSettings
from tests.support.waiting import wait_for

DEAF = """
import pathlib, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
encoder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
started = pathlib.Path(sys.argv[1], "started")
started.write_text(str(encoder.pid))
started.rename(started.with_name("encoder"))
signal.pause()
"""


def test_a_command_that_does_not_stop_is_killed_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", DEAF, str(tmp_path)]
    monkeypatch.setattr(indexing, "server_command", lambda *_: command)
    settings = ClientSettings(home=tmp_path, grace_seconds=0.1)

    with indexing._process(tmp_path, settings):
        wait_for((tmp_path / "encoder").exists, "the child has one of its own")

    encoder = int((tmp_path / "encoder").read_text())
    try:
        wait_for(lambda: not runs(encoder), "the encoder has ended")
    finally:
        with suppress(ProcessLookupError):
            os.kill(encoder, signal.SIGKILL)


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
