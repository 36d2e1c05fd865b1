"""Loops of a campaign at once on real processes, with stand-ins for training and evaluation."""

import re
from pathlib import Path

import pytest

from tests.integration.campaigns.test_campaigns import BAD, GOOD, Campaigns, running_campaigns
from tests.support.campaigns.scripted_llm import Messages
from tests.support.waiting import wait_for

KILLS = (2, 5, 8, 11)
"""Answers of the LLM before a worker is killed."""


class Branching:
    """Proposes good sums in loop 2 and bad ones else, whatever the order of its calls."""

    def __call__(self, messages: Messages) -> str:
        first, asked = (str(messages[number]["content"]) for number in (1, -1))
        if '{"reason"' in asked:
            return '{"reason": "it cannot add"}'
        if '{"hypothesis"' in asked:
            return f'{{"hypothesis": "sums of loop {1 + first.count(chr(10) + "Loop ")}"}}'
        if "skip_data_processing" in asked:
            loop = 1 + first.count("\nLoop ")
            return f'{{"task": "sums of loop {loop}", "skip_data_processing": false}}'
        if "judged" in asked:
            return '{"Code Summary": "copies sums", "Reason": "data decide"}'
        return GOOD if "The experiment: sums of loop 2" in first else BAD


def kept_answers(campaigns: Campaigns, campaign: str) -> int:
    folder = campaigns.folder / "home" / "jobs" / campaign
    return len(list(folder.glob("loop-*/answers/*.json")))


def kinds_of_jobs(campaigns: Campaigns) -> list[str]:
    jobs = campaigns.client.http.get("/v1/jobs", params={"limit": 100}).json()["data"]
    return sorted(job["kind"] for job in jobs)


@pytest.mark.drill
def test_branches_survive_sigkill_without_a_second_answer_job_or_step(tmp_path: Path) -> None:
    with running_campaigns(tmp_path) as campaigns:
        llm = campaigns.llm
        llm.answer = Branching()
        campaign = campaigns.create({"branches": 2}, loops=3)
        for answers in KILLS:
            llm.holding.clear()
            # Once so many answers are given, all further calls are left unanswered.
            llm.held = lambda _, most=answers: len(llm.requests) >= most  # type: ignore[misc]  # bound at its definition
            with campaigns.worker() as worker:
                assert llm.holding.wait(120)
                wait_for(
                    lambda most=answers: kept_answers(campaigns, campaign) == most,  # type: ignore[misc]  # bound at its definition
                    "the answers are kept",
                )
                worker.kill()
            # A call of the killed worker must not be answered in place of its repetition.
            wait_for(lambda: llm.unanswered == 0, "the killed worker's calls have ended")
        llm.held = lambda _: False
        with campaigns.worker():
            campaigns.client.wait_until(campaign, "succeeded", 240)

        assert set(llm.answered.values()) == {1}
        assert len(llm.requests) == 3 * 5
        expected = ["campaign"] + ["evaluation"] * 2 * 4 + ["fine_tuning"] * 2 * 3
        assert kinds_of_jobs(campaigns) == expected
        loops = campaigns.loops(campaign)
        assert [loop["accepted"] for loop in loops] == [None, False, True, False]
        assert sorted(loop["judged"] for loop in loops[1:]) == [1, 2, 3]
        assert campaigns.get(f"{campaign}/best")["loop"] == 2
        assert campaigns.get(campaign)["result"]["best_loop"] == 2
        events = campaigns.client.events(campaign)
        begun = [each["message"] for each in events if re.match(r"Loop \d: \w+$", each["message"])]
        assert len(begun) == len(set(begun)), "every step began once"


@pytest.mark.drill
def test_two_loops_train_at_the_same_time_and_share_one_budget(tmp_path: Path) -> None:
    with running_campaigns(tmp_path) as campaigns, campaigns.worker():
        campaigns.llm.answer = Branching()
        # Two proposals of three turns, and one answer of code, at 110 tokens each.
        campaign = campaigns.create({"branches": 2}, loops=9, llm_tokens=7 * 110)
        campaigns.client.wait_until(campaign, "succeeded", 240)

        result = campaigns.get(campaign)["result"]
        assert (result["ended_by"], result["llm_tokens"]) == ("llm_tokens", 7 * 110)
        loops = campaigns.loops(campaign)
        assert len(loops) == 3
        measured = [loop for loop in loops[1:] if loop["model"]]
        assert len(measured) == 1, "the loop whose code was paid for is measured and judged"
        assert measured[0]["accepted"] is not None
