"""Campaigns that wait for others, and the scores of several answers to an item."""

import pytest

from services.campaigns.loop import advance
from services.campaigns.run.results import ResultRow
from services.campaigns.run.signals import Waiting
from services.campaigns.steps.part import item_means, item_scores
from services.campaigns.turn import CampaignTurn
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.jobs import JobStatus
from services.metrics.missing_scores import PartialScore, Scores
from tests.support.campaigns.run import StoredCampaign

LOST = LeftOut(source="grader", cause=InfrastructureCause.REFUSED, message="nothing listens")


def test_a_campaign_takes_no_step_before_the_one_that_it_comes_after_has_ended(
    campaign: StoredCampaign,
) -> None:
    campaign.create(after=["campaign-0"], budget={"hours": 1.0})
    campaign.training(0, "campaign-0")
    claim = campaign.claim()
    run = campaign.run_of(claim)

    with pytest.raises(Waiting, match="waiting for campaign-0") as waiting:
        advance(run)
    CampaignTurn(campaign.database, campaign.settings)._release(
        claim, run, waiting.value.reason, waiting.value.jobs
    )

    assert campaign.status_of(campaign.id) is JobStatus.QUEUED
    assert not run.has_begun
    assert campaign.started_at() is None, "its hours do not count yet"


@pytest.mark.parametrize(
    ("pass_k", "expected"),
    [
        (None, {0: 0.5, 1: 0.25, 2: PartialScore(0.75, 0.25), 3: 2 / 3, 4: 1.0}),
        (2, {0: 5 / 6, 1: 0.5, 2: 1.0, 3: 1.0}),
    ],
)
def test_an_item_is_scored_over_all_its_samples(pass_k: int | None, expected: Scores) -> None:
    scores: list[list[float | LeftOut | None]] = [
        [1.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
        [1.0, None, 1.0, 1.0],
        [1.0, LOST, 0.0, 1.0],
        [LOST, 1.0, LOST, LOST],
        [LOST, LOST, LOST, LOST],
    ]
    rows = [
        ResultRow(index=index, gold=["1"], answer=None, correct=None, left_out=score)
        if isinstance(score, LeftOut)
        else ResultRow(index=index, gold=["1"], answer="1", score=score, correct=score == 1.0)
        for index, samples in enumerate(scores)
        for score in samples
    ]

    found = item_scores(rows, pass_k)

    assert found.pop(2) == expected.pop(2)
    assert found == pytest.approx(expected)


def test_an_item_that_one_seed_lost_is_in_no_mean() -> None:
    one: Scores = {0: 1.0, 1: None, 2: 0.0, 3: 1.0}
    other: Scores = {0: 0.0, 1: 1.0, 3: 1.0}

    assert item_means([one, other]) == item_means([other, one]) == {0: 0.5, 1: None, 3: 1.0}
