"""The budget of a campaign: what ends with it, and what is kept."""

from services.campaigns.loop import advance
from services.campaigns.records import Feedback
from services.contracts.campaigns import Limit, StepName
from tests.support.campaign_run import SEARCH_ITEMS, StoredCampaign, measured


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
