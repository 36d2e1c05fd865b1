"""Commands that end with every process that they started."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from services.core.process.tree import run_tree

DRIVER = """
sh -c 'sleep 600 & echo $! > worker; wait' &
setsid sleep 600 &
echo $! > apart
while [ ! -s worker ]; do sleep 0.01; done
echo begun
wait
"""


def runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def run(
    code: str, folder: Path, seconds: float, given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    command = ["/bin/sh", "-c", code]
    return run_tree(command, seconds=seconds, cwd=folder, environment=os.environ, given=given)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_command_that_takes_too_long_ends_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    communicate: Callable[..., object] = subprocess.Popen.communicate

    def begin_first(process: "subprocess.Popen[bytes]", given: bytes, timeout: float) -> object:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        if is_interrupted:
            raise KeyboardInterrupt
        return communicate(process, given, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", begin_first)
    with pytest.raises(KeyboardInterrupt if is_interrupted else subprocess.TimeoutExpired):
        run(DRIVER, tmp_path, seconds=0.01)

    started = [int((tmp_path / name).read_text()) for name in ("worker", "apart")]
    assert not any(map(runs, started))


def test_a_command_is_given_its_input_and_returns_its_output_and_code(tmp_path: Path) -> None:
    done = run("cat; echo wrong >&2; exit 3", tmp_path, seconds=60, given=b"input")

    assert (done.stdout, done.stderr, done.returncode) == (b"input", b"wrong\n", 3)
