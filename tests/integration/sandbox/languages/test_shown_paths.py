"""Programs see only those host paths that toolchains need."""

import tempfile
from pathlib import Path

import pytest

from services.sandbox.execution import Execution, Limits, PythonFile
from tests.support.programs.sandbox_pool import PoolInThread, running_pool

FILE, DEVICE = "/etc/debian_version", "/dev/tty"
NO_TERMINAL = "No such device or address"  # what a terminal's device says to who has none
PROGRAM = b"""\
import sys
for path in sys.argv[1:]:
    try:
        open(path, "rb").close()
        print("opened")
    except OSError as error:
        print(error.strerror)
"""


def _seen(running: PoolInThread, *paths: str) -> list[str]:
    execution = Execution(
        command=PythonFile("main.py", paths),
        limits=Limits(seconds=30.0, memory_bytes=1 << 28, output_bytes=1 << 16),
        files={"main.py": PROGRAM},
    )
    return running.call(running.pool.run(execution)).stdout.decode().splitlines()


@pytest.mark.skipif(not Path(FILE).exists(), reason=f"{FILE} is missing on this distribution")
def test_only_visible_paths_can_be_opened() -> None:
    with running_pool([FILE], devices=[DEVICE]) as running:
        assert _seen(running, FILE, DEVICE) == ["opened", NO_TERMINAL]
    with running_pool() as running:
        assert not {"opened", NO_TERMINAL} & set(_seen(running, FILE, DEVICE))


def test_visible_paths_below_private_folders_can_be_opened() -> None:
    # Not tmp_path: a run as another user could not pass its folders, which are closed to others.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        shown = Path(folder, "shown")
        shown.write_bytes(b"")
        Path(folder).chmod(0o755)
        with running_pool([str(shown)]) as running:
            assert _seen(running, str(shown)) == ["opened"]
        with running_pool() as running:
            assert _seen(running, str(shown)) == ["No such file or directory"]
