"""What a program receives and returns."""

import os
import signal

import pytest

from services.sandbox.execution import Executable, ExitReason, Stream
from tests.integration.sandbox.pool.programs import MEGABYTE, execution, python, run, start
from tests.support.programs.sandbox_pool import PoolInThread
from tests.support.time_limits import with_enough_time


@pytest.mark.parametrize("size", [0, 3, 5 * MEGABYTE])
def test_a_program_reads_its_input(sandbox: PoolInThread, size: int) -> None:
    data = os.urandom(size)
    outcome = run(sandbox, execution(Executable(("cat",)), stdin=data))

    assert (outcome.exit_reason, outcome.return_code) == (ExitReason.EXITED, 0)
    assert outcome.stdout == data


def test_files_are_in_the_work_directory(sandbox: PoolInThread) -> None:
    files = {"run.sh": b"#!/bin/sh\ncat deep/er/data; test ! -x deep/er/data && echo plain"}
    files["deep/er/data"] = bytes(range(256))
    program = execution(
        Executable(("./run.sh",)), files=files, executable_files=frozenset({"run.sh"})
    )

    assert run(sandbox, program).stdout == bytes(range(256)) + b"plain\n"


def test_files_are_fetched_by_name_and_pattern(sandbox: PoolInThread) -> None:
    source = """
import os, pathlib
pathlib.Path("build/deep").mkdir(parents=True)
pathlib.Path("build/A.class").write_bytes(b"a" * 3_000_000)
pathlib.Path("build/deep/B.class").write_bytes(b"\\xff\\0")
pathlib.Path("out.txt").write_text("out")
pathlib.Path("link.txt").symlink_to("/etc/passwd")
os.mkfifo("fifo.txt")
open(b"\\xff.txt", "w").close()
"""
    outcome = run(
        sandbox, python(source, fetch=("*.class", "out.txt", "absent", "*.txt", "main.py"))
    )

    assert outcome.files == {
        "build/A.class": b"a" * 3_000_000,
        "build/deep/B.class": b"\xff\0",
        "out.txt": b"out",
        "main.py": source.encode(),
    }
    assert outcome.left_out == ()


def test_messages_name_the_same_paths_in_every_run_and_tier(sandbox: PoolInThread) -> None:
    source = (
        "import os, sys\nfrom helper import helper\n"
        "print(os.getcwd(), os.environ['TMPDIR'])\nsys.exit(helper())"
    )
    program = python(source, files={"helper.py": b"def helper():\n    return 1 / 0\n"})
    pieces: dict[Stream, bytes] = dict.fromkeys(Stream, b"")

    def listen(stream: Stream, piece: bytes) -> None:
        pieces[stream] += piece

    outcomes = [run(sandbox, program) for _ in range(3)]
    start(sandbox, program, listen).result(60)

    assert {outcome.stdout for outcome in outcomes} == {b"/workspace /tmp\n"}
    (trace,) = {outcome.stderr for outcome in outcomes}
    assert b'File "/workspace/main.py", line 4' in trace
    assert b'File "/workspace/helper.py", line 2' in trace
    assert pieces == {Stream.STDOUT: b"/workspace /tmp\n", Stream.STDERR: trace}


def test_files_beyond_the_limit_are_left_out(sandbox: PoolInThread) -> None:
    source = "for n in range(3): open(f'{n}.bin', 'wb').truncate(30 << 20)"
    outcome = run(sandbox, python(source, fetch=("0.bin", "1.bin", "2.bin")))

    assert outcome.files.keys() == {"0.bin", "1.bin"}
    assert outcome.left_out == ("2.bin",)


def test_files_are_fetched_after_a_timeout(sandbox: PoolInThread) -> None:
    source = "open('x', 'w').write('kept')\nwhile True: pass"
    outcome = with_enough_time(
        lambda seconds: run(sandbox, python(source, seconds=seconds, fetch=("x",))),
        lambda outcome: outcome.files == {"x": b"kept"},
    )

    assert outcome.exit_reason is ExitReason.TIMED_OUT
    assert outcome.files == {"x": b"kept"}


def test_the_environment_reveals_nothing_of_the_service(sandbox: PoolInThread) -> None:
    show = "env; cat /proc/self/environ /proc/$PPID/environ 2>/dev/null"
    programs = [
        execution(Executable(("sh", "-c", show)), environment={"OWN": "value"}),
        python("import os, subprocess; print(os.environ, open('/proc/self/environ').read())"),
    ]

    outputs = [run(sandbox, program).stdout for program in programs]

    assert b"OWN=value" in outputs[0]
    for output in outputs:
        assert b"PATH" in output
        assert b"services-own-secret" not in output
        assert b"TEMPER" not in output


def test_a_missing_executable_exits_with_127(sandbox: PoolInThread) -> None:
    outcome = run(sandbox, execution(Executable(("surely-absent", "x"))))

    assert (outcome.exit_reason, outcome.return_code) == (ExitReason.EXITED, 127)
    assert b"surely-absent" in outcome.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_death_by_a_signal(sandbox: PoolInThread, number: signal.Signals) -> None:
    outcome = run(sandbox, execution(Executable(("sh", "-c", f"kill -{int(number)} $$"))))

    assert (outcome.exit_reason, outcome.return_code) == (ExitReason.EXITED, -number)


def test_cpu_time_includes_all_processes(sandbox: PoolInThread) -> None:
    source = """
import os, time
def spend():
    held = b"x" * (60 << 20)
    while time.process_time() < 0.3: pass
if os.fork() == 0:
    spend()
    os._exit(0)
os.wait()
"""
    outcome = run(sandbox, python(source))

    assert outcome.cpu_seconds > 0.3
    assert outcome.peak_memory_bytes > 50 * MEGABYTE
    assert run(sandbox, python("")).peak_memory_bytes < 50 * MEGABYTE
