"""The walk of POST /run_code: its page names every file that gateway and sandbox execute."""

from pathlib import Path

import httpx
import pytest

from tests.support.docs.executed import begin, executed, recording
from tests.support.docs.walks import named
from tests.support.processes import running_service
from tests.support.sandbox import running_sandbox

pytestmark = pytest.mark.drill

ROOMS = (
    "services/sandbox/",
    "services/core/web/",
    "services/api/proxy.py",
    "services/api/tool_routes.py",
)
"""Where no work recurs without a request."""
NEXT_SLOT = {"services/sandbox/isolation/cgroup_memory.py"}
"""The set-up of the slot that replaces the used one."""


def test_a_run_executes_the_files_that_its_page_names(tmp_path: Path) -> None:
    folder = tmp_path / "executed"
    folder.mkdir()
    launcher = recording(folder)
    with running_sandbox(tmp_path, launcher=launcher) as sandbox:
        env = {"TEMPER_HOME": str(tmp_path / "home"), "TEMPER_SANDBOX_URL": sandbox.url}
        with running_service("services.api", env, tmp_path / "log", launcher) as (_, url):
            body = {"code": "print(1)", "language": "python"}
            httpx.post(f"{url}/run_code", json=body, timeout=120)
            begin("run", folder, processes=2)
            answer = httpx.post(f"{url}/run_code", json=body, timeout=120).json()
            begin("end", folder, processes=2)

    ran = {file for file in executed("run", folder) if file.startswith(ROOMS)}
    page = named("run-code.md")
    assert all(any(file.startswith(room) for file in ran) for room in ROOMS)
    assert answer["run_result"]["stdout"] == "1\n"
    assert ran - page - NEXT_SLOT == set()
    assert len(ran & page) > 25  # the page speaks of this run
