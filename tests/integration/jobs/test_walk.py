"""The walk of a fine-tuning job: its page names every file that gateway and worker execute."""

from pathlib import Path

import pytest

from tests.support.docs.executed import begin, executed, recording
from tests.support.docs.walks import walk
from tests.support.gateway import GatewayClient
from tests.support.processes import REPOSITORY, running, running_service

pytestmark = pytest.mark.drill

DECLARING = ("services/contracts/", "services/core/settings.py")
RECURRING = (
    "services/api/alerts/",
    "services/api/files/expiry.py",
    "services/api/jobs/removal.py",
    "services/api/responses/expiry.py",
    "services/api/serving/usage.py",
    "services/api/webhooks/",
    "services/core/process/supervised.py",
    "services/jobs/campaign_records.py",
    "services/jobs/pause.py",
    "services/jobs/worker/heartbeat.py",
    "services/jobs/worker/presence.py",
)
"""Work that recurs without the job."""


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
    named = {str(file.relative_to(REPOSITORY)) for file in walk("fine-tuning-job.md")}
    shared = {str(file.relative_to(REPOSITORY)) for file in walk("run-code.md")}
    unnamed = ran - executed("watching", folder) - named - shared
    assert {file for file in unnamed if not file.startswith((*DECLARING, *RECURRING))} == set()
    assert len(ran & named) > 35  # the page speaks of this run
