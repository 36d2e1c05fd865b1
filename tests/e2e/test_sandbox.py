"""Running code through the gateway of a local stack, as a rollout's tool does."""

import hashlib
from collections.abc import Iterator

import httpx
import pytest
from sandbox_fusion import (
    RunCodeRequest,
    RunJupyterRequest,
    RunStatus,
    run_code,
    run_jupyter,
    set_endpoint,
)

from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.stack import DEADLINE, home_in

KEY = "temper-e2e-key"
NUMPY = "import numpy as np\nprint(int(np.arange(10).sum()), input())"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A stack whose gateway requires keys; the key is in the URL."""
    installed_runtime("sandbox")
    with home_in(tmp_path_factory.mktemp("stack") / "home") as home:
        home.variables["TEMPER_RUNTIMES"] = str(FOLDER)
        home.variables["TEMPER_API_KEY_HASHES"] = hashlib.sha256(KEY.encode()).hexdigest()
        _, state = home.up()
        yield state.url.replace("//", f"//any:{KEY}@")


def test_the_published_client_runs_programs_through_the_gateway(url: str) -> None:
    set_endpoint(url)

    answer = run_code(RunCodeRequest(language="python", code=NUMPY, stdin="x\n"))

    assert answer.status is RunStatus.Success
    assert answer.run_result is not None
    assert answer.run_result.stdout == "45 x\n"


def test_a_failing_program_is_a_response_not_an_error(url: str) -> None:
    body = {"language": "python", "code": "raise ValueError('no')"}

    answer = httpx.post(f"{url}/run_code", json=body, timeout=DEADLINE)

    assert answer.status_code == 200
    assert answer.json()["status"] == "Failed"
    assert "ValueError: no" in answer.json()["run_result"]["stderr"]


def test_the_published_client_runs_notebooks_through_the_gateway(url: str) -> None:
    set_endpoint(url)

    answer = run_jupyter(RunJupyterRequest(cells=["a = 20", "print(a + 1)", "a * 2"]))

    assert answer.status is RunStatus.Success
    assert [cell.stdout for cell in answer.cells] == ["", "21\n", ""]
    assert answer.cells[2].display[0]["text/plain"] == "40"
