"""Concurrent programs, streamed output, and cancellation."""

import asyncio
import threading

from services.sandbox.execution import Executable, Outcome, Stream
from tests.integration.sandbox.pool.programs import (
    execution,
    named,
    process_named,
    python,
    run,
    start,
)
from tests.support.programs.sandbox_pool import PoolInThread
from tests.support.waiting import wait_for


def test_concurrent_programs_do_not_see_each_other(sandbox: PoolInThread) -> None:
    async def all_of_them() -> list[Outcome]:
        source = (
            "import os\nprint(open('own').read(), os.listdir(), os.listdir(os.environ['TMPDIR']))"
        )
        source += "\nopen(os.environ['TMPDIR'] + '/left', 'w')"
        programs = [python(source, files={"own": b"%d" % n}) for n in range(64)]
        return await asyncio.gather(*(sandbox.pool.run(program) for program in programs))

    outcomes = sandbox.call(all_of_them())

    for number, outcome in enumerate(outcomes):
        own, _, rest = outcome.stdout.decode().partition(" ")
        assert own == f"{number}", outcome
        # A runtime in the temporary folder shows there.
        assert rest.startswith(("['main.py', 'own'] [", "['own', 'main.py'] ["))
        assert "left" not in rest


def test_the_listener_gets_output_in_order(sandbox: PoolInThread) -> None:
    heard: list[tuple[Stream, bytes]] = []
    source = "import sys\nfor n in range(3000):\n print(n)\n print(-n, file=sys.stderr)"

    outcome = start(sandbox, python(source), lambda *piece: heard.append(piece)).result(60)

    for stream, output in ((Stream.STDOUT, outcome.stdout), (Stream.STDERR, outcome.stderr)):
        assert b"".join(piece for which, piece in heard if which is stream) == output
        assert output.count(b"\n") == 3000


def test_the_listener_gets_no_more_than_is_kept(sandbox: PoolInThread) -> None:
    heard: list[bytes] = []
    program = python("print('x' * 100000)", output_bytes=1000)

    outcome = start(sandbox, program, lambda _, piece: heard.append(piece)).result(60)

    assert b"".join(heard) == outcome.stdout == b"x" * 1000


def test_a_program_streams_output_and_dies_when_cancelled(sandbox: PoolInThread) -> None:
    heard = threading.Event()
    program = execution(Executable(("sh", "-c", "echo first; exec sleep 77003")))

    running = start(sandbox, program, lambda *_: heard.set())
    assert heard.wait(60)
    wait_for(lambda: process_named("77003"), "the program")
    running.cancel()

    wait_for(lambda: named("77003") == [], "the program is gone")
    assert run(sandbox, python("print(1)")).stdout == b"1\n"


def test_cancelling_at_any_time_loses_no_slot(sandbox: PoolInThread) -> None:
    async def begin_and_cancel(steps: int) -> None:
        task = asyncio.create_task(sandbox.pool.run(python("import time; time.sleep(600)")))
        await asyncio.sleep(steps * 0.002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def many() -> None:
        await asyncio.gather(*(begin_and_cancel(steps % 20) for steps in range(60)))

    sandbox.call(many())

    outcomes = [start(sandbox, python("print(1)")) for _ in range(12)]
    assert [outcome.result(60).stdout for outcome in outcomes] == [b"1\n"] * 12
