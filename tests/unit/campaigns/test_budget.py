"""The budget of a campaign: what ends with it, and what is kept."""

import time

import pytest
from pydantic import ValidationError

from services.campaigns.loop import advance
from services.campaigns.run.records import Feedback
from services.campaigns.run.signals import Waiting
from services.campaigns.turn import FALLBACK_SECONDS, release
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import StepName
from services.contracts.jobs import JobStatus
from services.jobs.queues import CAMPAIGN
from tests.support.campaigns.run import SEARCH_ITEMS, StoredCampaign, measured
from tests.support.campaigns.scripted_llm import ScriptedLlm

HOUR = 3600.0


def test_a_verdict_is_kept_when_the_tokens_end_before_its_explanation(
    campaign: StoredCampaign,
) -> None:
    campaign.create(budget={"loops": 2, "llm_tokens": 100})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.effect(1, StepName.CODING, "coding.1", prompt_tokens=90, completion_tokens=10)
    campaign.measured_attempt(1, SEARCH_ITEMS)

    run = campaign.run()
    result = advance(run)

    feedback = run.finished(1, StepName.FEEDBACK, Feedback)
    assert (feedback.accepted, feedback.reason) == (True, "")
    assert feedback.comparison is not None
    assert (result.ended_by, result.best_loop, result.best_model) == (Limit.LLM_TOKENS, 1, "ft:1")
    assert (campaign.settings.home / "jobs" / campaign.id / "log").exists()


def test_a_campaign_ends_by_the_limit_that_left_its_last_loop_without_explanation(
    campaign: StoredCampaign,
) -> None:
    campaign.create(budget={"loops": 1, "llm_tokens": 100})
    campaign.step(0, StepName.BASE, measured("base", 5))
    campaign.effect(1, StepName.CODING, "coding.1", prompt_tokens=90, completion_tokens=10)
    campaign.measured_attempt(1, 4)

    result = advance(campaign.run())

    assert (result.ended_by, result.best_loop) == (Limit.LLM_TOKENS, 0)


def test_steps_end_a_campaign_within_a_loop(campaign: StoredCampaign) -> None:
    campaign.create(budget={"loops": 9, "steps": 3})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.measured_attempt(1, SEARCH_ITEMS)

    result = advance(campaign.run())

    assert (result.ended_by, result.best_loop) == (Limit.STEPS, 0)


def test_a_verdict_at_the_end_of_the_steps_is_recorded(campaign: StoredCampaign) -> None:
    campaign.create(budget={"loops": 9, "steps": 4})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.measured_attempt(1, SEARCH_ITEMS)
    campaign.step(1, StepName.FEEDBACK, {"accepted": True})

    result = advance(campaign.run())

    assert (result.ended_by, result.best_model) == (Limit.STEPS, "ft:1")


def test_hours_that_end_while_a_training_runs_end_the_campaign_and_the_training(
    campaign: StoredCampaign,
) -> None:
    campaign.create(budget={"loops": 3, "hours": 1.0})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.measured_attempt(1, SEARCH_ITEMS)
    campaign.step(1, StepName.FEEDBACK, {"accepted": True})
    campaign.step(1, StepName.RECORD, {"best_loop": 1, "best_model": "ft:1"})
    campaign.step(2, StepName.PROPOSAL, {"parent": 1})
    campaign.step(2, StepName.CODING, {"script": "pass", "settings": "a: 1"})
    campaign.finished_script(2)
    campaign.training(2, "ftjob-2")
    campaign.started(time.time() - 2 * HOUR)

    campaign.work(CAMPAIGN.work)

    assert campaign.status_of("ftjob-2") is JobStatus.CANCELLED
    assert campaign.status_of(campaign.id) is JobStatus.SUCCEEDED
    result = campaign.result()
    assert (result["ended_by"], result["best_loop"]) == ("hours", 1)


def test_a_campaign_whose_hours_end_before_the_base_model_is_measured_keeps_it(
    campaign: StoredCampaign,
) -> None:
    campaign.create(budget={"hours": 1.0})
    campaign.started(time.time() - 2 * HOUR)

    result = advance(campaign.run())

    assert (result.ended_by, result.best_loop, result.best_model) == (Limit.HOURS, 0, "base")


def test_a_call_of_the_llm_is_given_up_when_the_hours_end(campaign: StoredCampaign) -> None:
    with ScriptedLlm(lambda _: "never") as llm:
        llm.held = lambda _: True
        target = {"base_url": f"{llm.origin}/v1", "model": "scripted"}
        campaign.create(budget={"hours": 1.0}, llm=target)
        campaign.step(0, StepName.BASE, measured("base", 0))
        run = campaign.run()
        run.budget.now = lambda: time.time() + (2 * HOUR if llm.holding.is_set() else 0.0)

        assert advance(run).ended_by is Limit.HOURS
        assert llm.abandoned.wait(60)


def test_a_waiting_campaign_wakes_up_when_its_hours_end(campaign: StoredCampaign) -> None:
    campaign.create(budget={"hours": 1.0})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.step(1, StepName.PROPOSAL, {"parent": 0})
    campaign.step(1, StepName.CODING, {"script": "pass", "settings": "a: 1"})
    campaign.finished_script(1)
    campaign.training(1, "ftjob-1")
    claim = campaign.claim()
    run = campaign.run_of(claim)
    with pytest.raises(Waiting) as waiting:
        advance(run)
    run.budget.now = lambda: time.time() + HOUR - FALLBACK_SECONDS / 2

    with campaign.database.write() as session:
        release(session, claim.job, waiting.value.reason, ["ftjob-1"], run.budget.seconds_left)

    assert campaign.wakes_after() < FALLBACK_SECONDS


def test_gpu_hours_of_a_running_training_end_the_campaign(campaign: StoredCampaign) -> None:
    campaign.create(budget={"gpu_hours": 3.0})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.step(1, StepName.PROPOSAL, {"parent": 0})
    campaign.step(1, StepName.CODING, {"script": "pass", "settings": "a: 1"})
    campaign.finished_script(1)
    campaign.training(1, "ftjob-1", gpus=2, started_at=time.time() - HOUR)
    claim = campaign.claim()
    with pytest.raises(Waiting):
        advance(campaign.run_of(claim))

    campaign.started(time.time() - HOUR * 1.5, "ftjob-1")

    assert advance(campaign.run_of(claim)).ended_by is Limit.GPU_HOURS


def test_the_cost_of_tokens_ends_the_campaign(campaign: StoredCampaign) -> None:
    price = {"prompt": 2.0, "completion": 10.0}
    llm = {"base_url": "http://127.0.0.1:9/v1", "model": "scripted", "price": price}
    campaign.create(budget={"cost": 3.0}, llm=llm)
    tokens = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000}
    campaign.effect(1, StepName.CODING, "coding.1", **tokens)
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.measured_attempt(1, SEARCH_ITEMS)

    result = advance(campaign.run())

    assert (result.ended_by, result.best_loop) == (Limit.COST, 1)
    assert result.cost == pytest.approx(3.0)


def test_a_limit_of_cost_needs_a_price(campaign: StoredCampaign) -> None:
    with pytest.raises(ValidationError, match=r"budget\.cost needs llm\.price"):
        campaign.create(budget={"cost": 3.0})
