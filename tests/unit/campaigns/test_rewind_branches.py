"""Rewinding and forking a campaign of which several loops are under way."""

from typing import Any

import pytest
from pydantic import Field

from services.api.campaigns.consequences import Course
from services.api.campaigns.history import fork_campaign, rewind_campaign
from services.api.settings import ApiSettings
from services.campaigns.run.branches import take_loops
from services.campaigns.run.history import next_verdict
from services.campaigns.run.records import Feedback, Proposal
from services.campaigns.run.signals import Waiting
from services.contracts.base import Resource
from services.contracts.campaigns.campaigns import ForkCampaign, RewindCampaign
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import StepName
from services.contracts.jobs import JobStatus
from services.jobs.campaign_records import KNOWN, request_key
from services.jobs.store import get_job, move_job
from tests.support.campaigns.run import NOWHERE, StoredCampaign, measured
from tests.unit.campaigns.test_branches import Taking
from tests.unit.campaigns.test_rewind import register, rewind, unrecorded


class Told(Resource):
    """What a proposal knew."""

    best: int = 0
    parent: int = 0
    tried: list[int] = Field(default_factory=list)
    under_way: list[int] = Field(default_factory=list)


def proposed(campaign: StoredCampaign, loop: int, **told: Any) -> None:
    known = Told(**told)
    campaign.effect(loop, StepName.PROPOSAL, KNOWN, response=known.model_dump())
    campaign.step(loop, StepName.PROPOSAL, {"parent": known.parent, "hypothesis": "sums"})
    campaign.step(loop, StepName.CODING, {"script": "pass", "settings": "a: 1"})


def judged(campaign: StoredCampaign, loop: int, order: int, *, accepted: bool, best: int) -> None:
    campaign.step(loop, StepName.RUNNING, {"measurement": measured(f"ft:{loop}", 5)})
    campaign.step(loop, StepName.FEEDBACK, {"accepted": accepted, "order": order})
    campaign.step(loop, StepName.RECORD, {"best_loop": best, "best_model": f"ft:{best}"})


def steps(campaign: StoredCampaign, loop: int) -> list[StepName]:
    """The steps of a loop that have begun."""
    run = campaign.run()
    campaign.lost()
    return [name for name in StepName if run.steps.has_begun(loop, name)]


BEGUN = [StepName.PROPOSAL, StepName.CODING]


@pytest.fixture
def training(campaign: StoredCampaign) -> StoredCampaign:
    """Two loops train, of which the second knows the hypothesis of the first."""
    campaign.create(branches=2, budget={"loops": 2})
    campaign.step(0, StepName.BASE, measured("base", 2))
    for loop in (1, 2):
        proposed(campaign, loop, under_way=list(range(1, loop)))
        campaign.under_way(loop, StepName.RUNNING)
        campaign.training(loop, f"ftjob-{loop}")
    return campaign


def test_a_loop_that_knows_nothing_of_a_cleared_step_goes_on(training: StoredCampaign) -> None:
    unrecorded(training, "ftjob-lost", request_key(training.id, (2, StepName.RUNNING), "x", 0))

    rewind(training, 1, StepName.CODING)

    assert training.status_of("ftjob-1") is JobStatus.CANCELLED
    assert training.status_of("ftjob-2") is JobStatus.VALIDATING_FILES
    assert training.status_of("ftjob-lost") is JobStatus.VALIDATING_FILES, "it is adopted later"
    assert steps(training, 1) == [StepName.PROPOSAL]
    assert steps(training, 2) == [*BEGUN, StepName.RUNNING]


def test_requests_of_a_step_that_stays_are_the_same_after_a_rewind(
    training: StoredCampaign,
) -> None:
    def keys() -> list[str]:
        run = training.run()
        found: list[str] = []

        def note() -> Told:
            found.append(run.idempotency_key("train"))
            raise Waiting("enough")

        for loop in (1, 2):
            with pytest.raises(Waiting):
                run.step(loop, StepName.RUNNING, Told, note)
        training.lost()
        return found

    first, second = keys()
    rewind(training, 1, StepName.RUNNING)
    again, kept = keys()

    assert again != first, "the cleared step makes new requests"
    assert kept == second, "or a job that was not recorded would be made twice"


def test_both_loops_go_on_after_a_rewind(training: StoredCampaign) -> None:
    taking = Taking(training)
    rewind(training, 1, StepName.RUNNING)
    taking.jobs(3)
    taking.job_of = {1: "ftjob-3"}  # that of the step that is taken again
    claim = training.claim()

    with pytest.raises(Waiting) as waiting:
        take_loops(training.run_of(claim), taking)
    assert sorted(waiting.value.jobs) == ["ftjob-2", "ftjob-3"]
    assert sorted(taking.begun) == [(1, StepName.RUNNING), (2, StepName.RUNNING)]

    for loop in (2, 3):
        taking.end(loop)
    run = training.run_of(claim)
    assert take_loops(run, taking) is Limit.LOOPS
    assert run.steps.open_loops() == []


def test_a_cleared_proposal_takes_those_with_it_that_know_its_hypothesis(
    training: StoredCampaign,
) -> None:
    rewind(training, 1, StepName.PROPOSAL)

    assert training.status_of("ftjob-2") is JobStatus.CANCELLED
    assert (steps(training, 1), steps(training, 2)) == ([], [])


@pytest.fixture
def ended(campaign: StoredCampaign) -> StoredCampaign:
    """Loops 1 to 3 began together and were judged in the order 2, 1, 3; loop 4 knows of 2 alone."""
    campaign.create(branches=3, budget={"loops": 4})
    campaign.step(0, StepName.BASE, measured("base", 2))
    for loop in (1, 2, 3):
        proposed(campaign, loop, under_way=list(range(1, loop)))
    judged(campaign, 2, 1, accepted=False, best=1)  # recorded after the verdict on loop 1
    judged(campaign, 1, 2, accepted=True, best=1)
    judged(campaign, 3, 3, accepted=False, best=1)
    proposed(campaign, 4, tried=[2], under_way=[1, 3])
    return campaign


def test_verdicts_that_compared_with_a_cleared_model_are_made_again(ended: StoredCampaign) -> None:
    rewind(ended, 1, StepName.RUNNING)

    assert steps(ended, 1) == BEGUN
    assert steps(ended, 2) == [*BEGUN, StepName.RUNNING, StepName.FEEDBACK], "it named loop 1"
    assert steps(ended, 3) == [*BEGUN, StepName.RUNNING], "its measurement stays"
    assert steps(ended, 4) == BEGUN, "it did not know of the verdict"


def test_a_rejected_loop_leaves_other_verdicts_as_they_are(ended: StoredCampaign) -> None:
    rewind(ended, 2, StepName.FEEDBACK)

    assert steps(ended, 2) == [*BEGUN, StepName.RUNNING]
    for loop in (1, 3):
        assert StepName.RECORD in steps(ended, loop)
    assert steps(ended, 4) == [], "it was told of the verdict"


def test_a_record_is_made_again_for_itself(ended: StoredCampaign) -> None:
    rewind(ended, 1, StepName.RECORD)

    assert StepName.RECORD not in steps(ended, 1)
    assert StepName.RECORD in steps(ended, 3)


def test_a_verdict_under_way_follows_from_an_accepted_one() -> None:
    outputs: dict[tuple[int, StepName], dict[str, Any] | None] = {
        (1, StepName.FEEDBACK): {"accepted": True, "order": 1},
        (2, StepName.RUNNING): {},
        (2, StepName.FEEDBACK): None,
    }
    course = Course(outputs, {1: Told().model_dump(), 2: Told(under_way=[1]).model_dump()})

    cleared = course.following((1, StepName.FEEDBACK))

    assert (2, StepName.FEEDBACK) in cleared
    assert (2, StepName.RUNNING) not in cleared


def test_a_proposal_that_recorded_nothing_may_know_all_loops_before_it() -> None:
    outputs: dict[tuple[int, StepName], dict[str, Any] | None] = {
        (loop, name): {"accepted": False} for loop in (1, 2, 3) for name in list(StepName)[1:]
    }

    cleared = Course(outputs).following((2, StepName.CODING))

    assert dict(cleared.first) == {2: StepName.CODING, 3: StepName.PROPOSAL}


def test_a_fork_has_what_other_loops_have_finished_and_takes_the_rest_itself(
    training: StoredCampaign,
) -> None:
    settings = ApiSettings(home=training.settings.home, allowed_endpoints=[NOWHERE])
    register(training)
    body = ForkCampaign(loop=1, step=StepName.CODING)
    with training.database.write() as session:
        fork = fork_campaign(session, training.id, body, settings)
        move_job(session, fork, JobStatus.QUEUED, "The benchmark is valid")
    with training.database.write() as session:  # the forked one is not to be claimed
        move_job(session, get_job(session, training.id), JobStatus.PAUSED, "Paused")

    run = training.run()

    assert run.id == fork.id
    assert run.steps.open_loops() == [1, 2]
    assert run.finished(2, StepName.PROPOSAL, Proposal).hypothesis == "sums"
    assert not run.steps.has_begun(1, StepName.CODING)
    assert run.steps.is_finished(2, StepName.CODING)
    assert not run.steps.has_begun(2, StepName.RUNNING), "its training is the other campaign's"
    for loop in (1, 2):
        assert training.status_of(f"ftjob-{loop}") is JobStatus.VALIDATING_FILES


def test_the_event_names_the_loops_that_were_cleared_too(ended: StoredCampaign) -> None:
    with ended.database.write() as session:
        rewind_campaign(session, ended.id, RewindCampaign(loop=1, step=StepName.RUNNING))

    assert "Rewound to loop 1, running; cleared what followed in loops 2, 3" in ended.events()


def test_a_loop_that_is_judged_again_comes_last(ended: StoredCampaign) -> None:
    rewind(ended, 2, StepName.FEEDBACK)
    run = ended.run()

    assert next_verdict(run) == 4
    assert run.finished(1, StepName.FEEDBACK, Feedback).order == 2
