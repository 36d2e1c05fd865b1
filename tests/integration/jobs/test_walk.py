"""The walk of a fine-tuning job: its page names every file that gateway and worker execute."""

from pathlib import Path

import pytest

from tests.support.docs.executed import NOT_COUNTED, begin, executed, recording
from tests.support.docs.walks import named
from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_service

pytestmark = pytest.mark.drill


def test_a_job_executes_the_files_that_its_page_names(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "executed"
    folder.mkdir()
    env = {"TEMPER_HOME": str(home), "TEMPER_GRACE_SECONDS": "1"}
    launcher, log = recording(folder), tmp_path / "log"
    with (
        running_service("services.api", env, log, launcher) as (_, url),
        running("tests.support.jobs.stub_worker", [], env, log, launcher),
        GatewayClient(url, home) as client,
    ):
        first = client.submit("succeed")
        client.wait_until(first, "succeeded")
        begin("watching", folder, processes=2)
        client.job(first)
        begin("job", folder, processes=2)
        client.wait_until(client.submit("succeed"), "succeeded")
        begin("end", folder, processes=2)

    ran = executed("job", folder)
    page = named("fine-tuning-job.md")
    unnamed = ran - executed("watching", folder) - page - named("run-code.md")
    assert {file for file in unnamed if not file.startswith(NOT_COUNTED)} == set()
    assert len(ran & page) > 35  # the page speaks of this run
