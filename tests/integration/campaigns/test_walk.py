"""The walk of a campaign's loop: its page names every file that the campaigns' worker executes."""

from pathlib import Path

import pytest

from tests.integration.campaigns.test_campaigns import GOOD, Script, asks, running_campaigns
from tests.support.docs.executed import NOT_COUNTED, begin, executed, recording
from tests.support.docs.walks import named

pytestmark = pytest.mark.drill


def test_a_loop_executes_the_files_that_its_page_names(tmp_path: Path) -> None:
    folder = tmp_path / "executed"
    folder.mkdir()
    with (
        running_campaigns(tmp_path) as campaigns,
        campaigns.worker(recording(folder)),
    ):
        campaigns.llm.answer = Script({1: [GOOD]})
        campaigns.llm.held = lambda messages: asks('{"reason"', messages)
        campaign = campaigns.create(loops=1)
        assert campaigns.llm.holding.wait(120)  # the base model is measured, and a loop begins
        begin("loop", folder, processes=1)
        campaigns.llm.held = lambda _: False
        campaigns.client.wait_until(campaign, "succeeded", 240)
        begin("end", folder, processes=1)

    ran = executed("loop", folder)
    page = named("campaign-loop.md")
    unnamed = ran - page - named("fine-tuning-job.md")
    assert {file for file in unnamed if not file.startswith(NOT_COUNTED)} == set()
    assert len(ran & page) > 30  # the page speaks of this run
