"""What the infrastructure lost of an evaluation is asked again once, and then counts nowhere."""

import pytest

from services.campaigns.loop import advance
from services.campaigns.run.records import Attempt, Code, Feedback, Measurement, Proposal
from services.campaigns.run.signals import Waiting
from services.campaigns.steps.feedback import judge
from services.campaigns.steps.measurement import FixedModel, measure_seeds, parts_of
from services.contracts.campaigns.loops import StepName
from services.metrics.missing_scores import PartialScore
from tests.support.campaigns.gateway import GatewayOfTest
from tests.support.campaigns.run import SEARCH_ITEMS, StoredCampaign, measured
from tests.support.campaigns.scripted_llm import ScriptedLlm

SEARCH, FINAL = "0.base.evaluate.search", "0.base.evaluate.final"
WHY = '{"Code Summary": "sums", "Reason": "more of them"}'


class Base:
    """The measurement of the base model, taken by a new process each time."""

    def __init__(self, campaign: StoredCampaign) -> None:
        self._campaign = campaign
        self.gateway = GatewayOfTest(campaign)
        campaign.create()
        self._claim = campaign.claim()

    def go_on(self) -> Measurement | None:
        run = self._campaign.run_of(self._claim)
        run.gateway = self.gateway
        parts = parts_of(run)
        model = FixedModel(run, "base", parts)
        try:
            return run.step(0, StepName.BASE, Measurement, lambda: measure_seeds(run, parts, model))
        except Waiting:
            return None


@pytest.fixture
def base(campaign: StoredCampaign) -> Base:
    base = Base(campaign)
    assert base.go_on() is None
    base.gateway.evaluated(SEARCH, 8, lost=(0, 4, 9))
    base.gateway.evaluated(FINAL, 1)
    assert base.go_on() is None
    return base


def test_lost_items_are_evaluated_again(campaign: StoredCampaign, base: Base) -> None:
    again = f"{SEARCH}.again"
    assert base.gateway.unfinished == {again}
    whole = base.gateway.files["search.jsonl"]
    assert base.gateway.files[str(base.gateway.bodies[again]["file"])] == [
        whole[index] for index in (0, 4, 9)
    ]
    assert base.go_on() is None
    base.gateway.evaluated(again, 2)
    found = base.go_on()

    assert found is not None
    assert found.search == {item: float(item < 8) for item in range(SEARCH_ITEMS)}
    assert (found.search_left_out, found.final_left_out) == (0, 0)
    notes = [event for event in campaign.events() if "evaluated again" in event]
    assert len(notes) == 1
    assert notes[0].startswith("Loop 0: 3 of 10 items of the search part")


def test_items_that_are_lost_again_have_no_place_among_the_scores(base: Base) -> None:
    base.gateway.evaluated(f"{SEARCH}.again", 3, lost=(1,))
    found = base.go_on()

    assert found is not None
    assert sorted(found.search) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert found.search_left_out == 1
    assert Measurement.model_validate_json(found.model_dump_json()) == found


def test_an_item_without_a_grade_stays_among_the_scores(base: Base) -> None:
    base.gateway.evaluated(f"{SEARCH}.again", 3, ungraded=(1,))
    found = base.go_on()

    assert found is not None
    assert found.search[4] == PartialScore(given=0.0, missing=1.0)
    assert (found.search_worst, found.search_left_out) == (0.0, 0)
    assert Measurement.model_validate_json(found.model_dump_json()) == found


def test_a_second_evaluation_that_fails_leaves_the_items_out(base: Base) -> None:
    base.gateway.failed(f"{SEARCH}.again", "everything_left_out")
    found = base.go_on()

    assert found is not None
    assert found.search_left_out == 3


def test_an_equal_model_is_not_better_than_a_base_of_which_items_were_lost(
    campaign: StoredCampaign,
) -> None:
    """As the worst scores, the six lost items would be a gain beyond chance."""
    base = measured("base", 10)
    base["search"] = {item: base["search"][item] for item in ("6", "7", "8", "9")}
    with ScriptedLlm(lambda _: WHY) as llm:
        campaign.create(
            llm={"base_url": f"{llm.origin}/v1", "model": "scripted"}, budget={"loops": 1}
        )
        campaign.step(0, StepName.BASE, {**base, "search_left_out": 6})
        campaign.measured_attempt(1, 10)
        claim = campaign.claim()
        run = campaign.run_of(claim)
        attempt, parts = run.finished(1, StepName.RUNNING, Attempt), parts_of(run)
        feedback = run.step(
            1,
            StepName.FEEDBACK,
            Feedback,
            lambda: judge(run, Proposal(parent=0), Code(), attempt, parts),
        )
        again = campaign.run_of(claim)
        advance(again)

    assert not feedback.accepted
    assert feedback.comparison is not None
    assert (feedback.comparison.samples, feedback.comparison.left_out) == (4, 6)
    assert any("4 of 10 items were compared" in event for event in campaign.events())
