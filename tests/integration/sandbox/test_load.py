"""Sleeping programs do not block others."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from tests.integration.sandbox.test_queue import SLEEP, ask, running, waiting
from tests.support.sandbox import ANSWER_SECONDS, Sandbox, running_sandbox
from tests.support.waiting import wait_for

BUSY = 2
SLEEPERS = 8
PATIENCE = 3600
"""Seconds that requests may wait: none is refused for the pace of a slow machine."""
SPIN = "print('begun', flush=True)\nwhile True: pass"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A service with two places for programs that compute."""
    folder = tmp_path_factory.mktemp("small")
    settings = {
        "TEMPER_SANDBOX_BUSY_PROGRAMS": str(BUSY),
        "TEMPER_SANDBOX_MAX_RUN_SECONDS": str(PATIENCE),
        "TEMPER_SANDBOX_QUEUE_SECONDS": str(PATIENCE),
    }
    with running_sandbox(folder, **settings) as sandbox:
        yield sandbox
    assert "Traceback" not in (folder / "sandbox.log").read_text()


def test_sleeping_programs_delay_nobody(small: Sandbox) -> None:
    with ExitStack() as sleepers:
        for _ in range(SLEEPERS):
            sleepers.enter_context(ask(small, "/run_code", SLEEP))
        wait_for(lambda: running(small) == SLEEPERS, "all of them run")
        assert small.output("print(1)") == "1\n"
        assert running(small) == SLEEPERS
    wait_for(lambda: running(small) == 0, "all are gone")


def test_programs_that_compute_wait_for_each_other(small: Sandbox) -> None:
    with ExitStack() as spinners:
        for _ in range(BUSY):
            spinner = spinners.enter_context(ask(small, "/v1/run_code/stream", SPIN))
            # Until it computes, it may be seen asleep.
            assert any(b"begun" in line for line in spinners.enter_context(spinner.makefile("rb")))
        spinners.enter_context(ask(small, "/run_code", SPIN))
        wait_for(lambda: waiting(small) == 1, "one waits")
        assert running(small) == BUSY
    wait_for(lambda: (running(small), waiting(small)) == (0, 0), "all are gone")


def test_many_sleepers_and_many_short_programs_are_all_served(small: Sandbox) -> None:
    count = 100
    codes = [f"import time\ntime.sleep(1)\nprint({n})" for n in range(count)]
    codes += [f"print({n})" for n in range(count)]

    def output(code: str) -> str:
        # A client of its own: one that is shared closes connections that other threads read.
        body = {"code": code, "language": "python", "compile_timeout": PATIENCE, "run_timeout": 60}
        answer = httpx.post(f"{small.url}/run_code", json=body, timeout=ANSWER_SECONDS).json()
        assert answer.get("status") == "Success", answer
        return str(answer["run_result"]["stdout"])

    with ThreadPoolExecutor(len(codes)) as clients:
        outputs = list(clients.map(output, codes))
    assert outputs == [f"{n}\n" for n in range(count)] * 2
