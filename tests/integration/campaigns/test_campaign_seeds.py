"""Several seeds of a loop on real processes, with stand-ins for training and evaluation."""

from pathlib import Path

import pytest

from tests.integration.campaigns.test_campaigns import GOOD, Script, running_campaigns
from tests.support.waiting import wait_for

TRAININGS = (1, 2, 4)
"""Trainings, that of the trial included, before a worker is killed."""


@pytest.mark.drill
def test_seeds_survive_sigkill_without_a_second_job(tmp_path: Path) -> None:
    with running_campaigns(tmp_path) as campaigns:

        def kinds() -> list[str]:
            jobs = campaigns.client.http.get("/v1/jobs", params={"limit": 100}).json()["data"]
            return sorted(job["kind"] for job in jobs)

        campaigns.llm.answer = Script({1: [GOOD]})
        campaign = campaigns.create({"seeds": {"most": 3}}, loops=1)
        for trainings in TRAININGS:
            with campaigns.worker() as worker:
                wait_for(
                    lambda most=trainings: kinds().count("fine_tuning") >= most,  # type: ignore[misc]  # bound at its definition
                    "so many trainings are there",
                    120,
                )
                worker.kill()
        with campaigns.worker():
            campaigns.client.wait_until(campaign, "succeeded", 240)

        assert kinds() == ["campaign"] + ["evaluation"] * 2 * (1 + 3) + ["fine_tuning"] * (1 + 3)
        loop = campaigns.loops(campaign)[1]
        assert [each["seed"] for each in loop["seeds"]] == [0, 1, 2]
        assert len({each["model"] for each in loop["seeds"]}) == 3
        assert loop["model"] == loop["seeds"][0]["model"]
        assert (loop["comparison"]["seeds"], loop["comparison"]["best_seeds"]) == (3, 1)
        seeds = [
            each for each in campaigns.client.events(campaign) if "3 of 3 seeds" in each["message"]
        ]
        assert len(seeds) == 1
