"""The end of training processes."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, os, sys
from services.trainer.ranks import end_process
atexit.register(os.abort)  # as a thread of Gloo may do it
print("saved")
end_process(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 1])
def test_one_of_several_processes_is_not_aborted_after_its_work(code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(code)],
        env={"WORLD_SIZE": "2"},
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stdout) == (code, b"saved\n")


def test_a_single_process_runs_its_exit_handlers() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "0"], capture_output=True, timeout=120, check=False
    )

    assert done.returncode < 0
