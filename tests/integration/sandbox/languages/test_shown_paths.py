"""Programs see of the machine what toolchains need, and no more."""

from pathlib import Path

import pytest

from services.sandbox.execution import Execution, Limits, PythonFile
from services.sandbox.languages.golang import GO
from services.sandbox.languages.preparation import folder_name
from services.sandbox.languages.toolchains import ToolchainMissing, find_toolchain
from tests.support.sandbox import running_sandbox
from tests.support.sandbox_pool import PoolInThread, running_pool

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


def _seen(running: PoolInThread) -> list[str]:
    execution = Execution(
        command=PythonFile("main.py", (FILE, DEVICE)),
        limits=Limits(seconds=30.0, memory_bytes=1 << 28, output_bytes=1 << 16),
        files={"main.py": PROGRAM},
    )
    return running.call(running.pool.run(execution)).stdout.decode().splitlines()


@pytest.mark.skipif(not Path(FILE).exists(), reason=f"{FILE} is missing on this distribution")
def test_what_is_shown_can_be_opened_and_nothing_else() -> None:
    with running_pool([FILE], devices=[DEVICE]) as running:
        assert _seen(running) == ["opened", NO_TERMINAL]
    with running_pool() as running:
        assert not {"opened", NO_TERMINAL} & set(_seen(running))


def test_prepared_work_that_programs_cannot_see_is_done_without(tmp_path: Path) -> None:
    try:
        toolchain = find_toolchain(GO)
    except ToolchainMissing as error:
        pytest.skip(error.message)
    assert GO.preparation is not None
    prepared = tmp_path / "prepared"
    (prepared / folder_name(GO.preparation, toolchain)).mkdir(parents=True)
    with running_sandbox(tmp_path, TEMPER_SANDBOX_PREPARED=str(prepared)) as sandbox:
        code = 'package main\nimport "fmt"\nfunc main() { fmt.Println(42) }'
        assert sandbox.output(code, "go", compile_timeout=28) == "42\n"
