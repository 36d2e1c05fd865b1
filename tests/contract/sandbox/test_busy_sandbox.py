"""An overloaded sandbox: its clients retry and succeed."""

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
from sandbox_fusion import RunCodeRequest, run_code

from infra.testing.verl import has_verl, verl_folder
from tests.contract.sandbox.verl_modules import verl_importable
from tests.support.waiting import wait_for

HOLD = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.fixture
def occupied(one_slot_url: str) -> Iterator[Callable[[], None]]:
    """A program that holds the only slot; the function ends it."""
    body = {"code": HOLD, "language": "python", "run_timeout": 300}
    with ExitStack() as stack:
        stream = httpx.stream("POST", f"{one_slot_url}/v1/run_code/stream", json=body, timeout=60)
        lines = stack.enter_context(stream).iter_lines()
        assert any("begun" in line for line in lines)
        yield stack.close


def test_sdk_client_retries_until_a_slot_is_free(
    one_slot_url: str, occupied: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sandbox_fusion")
    request = RunCodeRequest(code="print(42)", language="python")

    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(run_code, request, one_slot_url)
        wait_for(lambda: "responded with code 504" in caplog.text, "a refusal")
        occupied()
        response = call.result(120)

    assert response.run_result.stdout == "42\n"


def test_verl_client_retries_until_a_slot_is_free(
    one_slot_url: str, occupied: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    if not has_verl():
        pytest.skip("verl has not been fetched; `make dev` says why")
    with verl_importable(verl_folder()) as load, ThreadPoolExecutor(1) as thread:
        ask = load("utils.reward_score.sandbox_fusion.utils").call_sandbox_api
        code, url = "print(42)", f"{one_slot_url}/run_code"
        call = thread.submit(ask, url, code, None, 30, 30, 1024, "python")
        wait_for(lambda: "Gateway Timeout (504)" in caplog.text, "a refusal")
        occupied()
        answer, problem = call.result(120)

    assert problem is None
    assert answer["run_result"]["stdout"] == "42\n", json.dumps(answer)
