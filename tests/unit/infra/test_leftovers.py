"""A killed test run leaves no process behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.leftovers import RUN
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for

CONFTEST = "from tests.support.leftovers import watch_this_run\nwatch_this_run()\n"
TEST = """
import pathlib, subprocess, sys
def test_it():
    server = "import time; time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", server], start_new_session=True)
    pathlib.Path("pid").write_text(str(process.pid))
    process.wait()
"""


def test_servers_end_with_a_killed_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TEST)
    environment = {name: value for name, value in os.environ.items() if name != RUN}
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "."],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
    )
    pid = tmp_path / "pid"
    server = int(wait_for(lambda: (pid.read_text() if pid.exists() else "") or None, "the server"))

    run.send_signal(signal.SIGKILL)
    run.wait()

    wait_for(lambda: not Path(f"/proc/{server}").exists(), "the end of the server")
