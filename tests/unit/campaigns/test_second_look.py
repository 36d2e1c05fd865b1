"""A gain that is chance is rarely accepted, however many attempts there are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from services.campaigns.loop import advance
from services.campaigns.run.records import Attempt, Code, Feedback, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import Waiting
from services.campaigns.steps.acceptance import FALSE_CAMPAIGNS, at_level, compare, level_of
from services.campaigns.steps.feedback import judge
from services.campaigns.steps.measurement import parts_of
from services.contracts.campaigns.loops import Comparison, StepName
from services.metrics.missing_scores import ScoredItems
from tests.support.campaigns.gateway import GatewayOfTest
from tests.support.campaigns.run import NOWHERE, StoredCampaign, measured
from tests.support.campaigns.scripted_llm import ScriptedLlm

CAMPAIGNS, ATTEMPTS = 200, 20
Draw = Callable[[np.random.Generator, int], Any]
"""The chances of so many items."""


def sampled(rng: np.random.Generator, chances: Any, samples: int) -> Any:
    return rng.binomial(samples, chances) / samples


def compared(scores: Any, best: Any) -> Comparison:
    return compare(
        ScoredItems(dict(enumerate(scores.tolist()))),
        ScoredItems(dict(enumerate(best.tolist()))),
        higher_is_better=True,
        shares=True,
    )


def verdicts(rng: np.random.Generator, draw: Draw, items: int, samples: int) -> list[list[bool]]:
    """Of each attempt of a campaign whose models differ and are equally good: whether the first
    look accepts it, an interval of fresh samples as well, and the decision."""
    base = draw(rng, items)
    best = sampled(rng, base, samples)
    found = []
    for order in range(1, ATTEMPTS + 1):
        chances = draw(rng, items)
        scores = sampled(rng, chances, samples)
        if scores.mean() <= best.mean() or not compared(scores, best).improves:
            continue
        fresh, other = sampled(rng, chances, samples), sampled(rng, base, samples)
        pooled = compared((scores + fresh) / 2, (best + other) / 2)
        decided = at_level(pooled, level_of(ATTEMPTS, order))
        found.append([True, compared(fresh, other).improves, decided.improves])
    return found


@pytest.mark.parametrize(
    ("draw", "items", "samples", "lucky"),
    [
        pytest.param(lambda rng, n: rng.integers(0, 2, n), 100, 1, True, id="nearly greedy"),
        pytest.param(lambda rng, n: rng.beta(0.5, 0.5, n), 100, 4, True, id="mostly certain"),
        pytest.param(lambda rng, n: rng.beta(2, 2, n), 30, 4, False, id="uncertain"),
        pytest.param(lambda rng, n: rng.beta(0.2, 0.2, n), 10, 4, True, id="few items"),
    ],
)
def test_twenty_equal_models_rarely_get_one_accepted_whatever_items_they_solve(
    draw: Draw, items: int, samples: int, lucky: bool
) -> None:
    rng = np.random.default_rng(1)
    campaigns = [verdicts(rng, draw, items, samples) for _ in range(CAMPAIGNS)]
    first, second, accepting = (
        sum(any(each[look] for each in campaign) for campaign in campaigns) for look in range(3)
    )

    assert first > 2 * FALSE_CAMPAIGNS * CAMPAIGNS, "one look is not enough"
    assert (second > 2 * FALSE_CAMPAIGNS * CAMPAIGNS) is lucky, "fresh samples keep luck with items"
    assert accepting <= FALSE_CAMPAIGNS * CAMPAIGNS


def test_greedy_attempts_accept_a_false_one_in_few_campaigns() -> None:
    rng = np.random.default_rng(2)
    accepting = 0
    for _ in range(CAMPAIGNS):
        best = sampled(rng, np.full(30, 0.5), 1)
        found = [compared(sampled(rng, np.full(30, 0.5), 1), best) for _ in range(ATTEMPTS)]
        level = level_of(ATTEMPTS, 1)
        accepting += any(at_level(each, level).improves for each in found)

    assert accepting <= FALSE_CAMPAIGNS * CAMPAIGNS


def test_a_second_look_sees_the_gain_that_the_level_would_hide() -> None:
    """A gain of ten points over 100 items of four samples: see docs/campaigns.md."""
    rng = np.random.default_rng(3)
    looks = np.zeros(2)
    for _ in range(CAMPAIGNS):
        base = 0.8 * rng.random(100)
        chances = np.clip(base + 0.1 + rng.normal(0, 0.15, 100), 0, 1)
        scores, fresh = sampled(rng, chances, 4), sampled(rng, chances, 4)
        best, other = sampled(rng, base, 4), sampled(rng, base, 4)
        first = compared(scores, best)
        pooled = compared((scores + fresh) / 2, (best + other) / 2)
        level = level_of(ATTEMPTS, 1)
        looks += [
            at_level(first, level).improves,
            first.improves and at_level(pooled, level).improves,
        ]

    one, two = looks / CAMPAIGNS
    assert one < 0.65
    assert two > 0.7


@pytest.mark.parametrize("loops", [1, 3, 20, 21, 1000])
def test_the_levels_of_a_campaign_add_up_to_a_false_one_in_twenty(loops: int) -> None:
    levels = [level_of(loops, order) for order in range(1, loops + 1)]

    assert sum(levels) <= FALSE_CAMPAIGNS * 1.000001
    assert levels[0] >= FALSE_CAMPAIGNS / 2 / min(loops, 20)


class Judged:
    """The feedback of a loop with ``right`` of ten items, against a base with two."""

    def __init__(
        self, campaign: StoredCampaign, llm: ScriptedLlm, right: int, **asked: Any
    ) -> None:
        self._campaign = campaign
        self.gateway = GatewayOfTest(campaign)
        campaign.create(llm={"base_url": f"{llm.origin}/v1", "model": "scripted"}, **asked)
        campaign.step(0, StepName.BASE, measured("base", 2))
        campaign.measured_attempt(1, right)
        self._claim = campaign.claim()

    def go_on(self) -> Feedback | None:
        run = self._campaign.run_of(self._claim)
        run.gateway = self.gateway
        attempt = run.finished(1, StepName.RUNNING, Attempt)
        parts = parts_of(run)

        def do() -> Feedback:
            return judge(run, Proposal(parent=0), Code(), attempt, parts)

        try:
            return run.step(1, StepName.FEEDBACK, Feedback, do)
        except Waiting:
            return None


WHY = '{"Code Summary": "sums", "Reason": "more of them"}'
CANDIDATE, BEST = "1.feedback.candidate.0.seed-1032", "1.feedback.best.0.seed-1048"


@pytest.mark.parametrize(("again", "accepted"), [(10, True), (0, False)])
def test_a_gain_must_hold_with_fresh_samples(
    campaign: StoredCampaign, again: int, accepted: bool
) -> None:
    with ScriptedLlm(lambda _: WHY) as llm:
        judged = Judged(campaign, llm, 10, sampling={"temperature": 0.7, "seed": 4})

        assert judged.go_on() is None
        assert judged.gateway.unfinished == {CANDIDATE, BEST}
        judged.gateway.evaluated(CANDIDATE, again)
        assert judged.go_on() is None
        judged.gateway.evaluated(BEST, 2)
        feedback = judged.go_on()

    assert feedback is not None
    assert feedback.accepted is accepted
    assert feedback.comparison is not None
    assert feedback.comparison.second_look is not None
    assert feedback.comparison.second_look.difference == pytest.approx((6 + again) / 20)
    seeds = {body["sampling"]["seed"] for body in judged.gateway.bodies.values()}
    assert len(seeds) == 2, "the samples of both are fresh"
    assert "and with fresh samples by" in str(llm.requests[-1])


def test_a_second_look_that_fails_accepts_nothing(campaign: StoredCampaign) -> None:
    with ScriptedLlm(lambda _: WHY) as llm:
        judged = Judged(campaign, llm, 10, sampling={"temperature": 0.7})
        assert judged.go_on() is None
        judged.gateway.failed(CANDIDATE, "engine_start_failed")
        judged.gateway.evaluated(BEST, 2)
        feedback = judged.go_on()

    assert feedback is not None
    assert not feedback.accepted
    assert any("without its second look" in event for event in campaign.events())


@pytest.mark.parametrize(("loops", "accepted"), [(1, True), (3, True), (20, False)])
def test_a_greedy_gain_must_be_clearer_the_more_loops_there_are(
    campaign: StoredCampaign, loops: int, accepted: bool
) -> None:
    """Eight of eight discordant items: a p-value of 0.0078."""
    with ScriptedLlm(lambda _: WHY) as llm:
        feedback = Judged(campaign, llm, 10, budget={"loops": loops}).go_on()

    assert feedback is not None
    assert feedback.accepted is accepted


def test_the_noise_of_the_base_model_is_measured_first(campaign: StoredCampaign) -> None:
    llm = {"base_url": f"{NOWHERE}/v1", "model": "scripted", "attempts": 1}
    campaign.create(sampling={"temperature": 0.7}, llm=llm)
    gateway, claim = GatewayOfTest(campaign), campaign.claim()
    run: CampaignRun
    for right in (4, 6):
        run = campaign.run_of(claim)
        run.gateway = gateway
        with pytest.raises(Waiting):
            advance(run)
        for name in gateway.unfinished:
            gateway.evaluated(name, right)
    run = campaign.run_of(claim)
    run.gateway = gateway
    with pytest.raises(Waiting, match="waiting for the LLM"):
        advance(run)

    assert "0.base.noise.0.seed-1016" in gateway.bodies
    assert any("differ by +0.2000: gains up to about" in event for event in campaign.events())
