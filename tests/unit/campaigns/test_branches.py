"""Several loops of a campaign at once: their order, their budget, and what each knows."""

import threading
from typing import Any

import pytest

from services.campaigns.loop import advance
from services.campaigns.run.branches import take_loops
from services.campaigns.run.history import best_loop
from services.campaigns.run.records import Feedback, Proposal, Record
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, Interrupted, Waiting
from services.campaigns.steps.proposal import propose
from services.contracts.base import Resource
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import StepName
from services.contracts.jobs import JobStatus
from services.jobs.job import NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job, get_job, move_job
from tests.support.campaigns.run import SEARCH_ITEMS, StoredCampaign, measured
from tests.support.campaigns.scripted_llm import Messages, ScriptedLlm


class Nothing(Resource):
    """An output without content."""

    done: bool = True


class Taking:
    """Takes loops whose running is a job that the test ends."""

    def __init__(self, campaign: StoredCampaign) -> None:
        self.campaign = campaign
        self.begun: list[tuple[int, StepName]] = []
        self.fail: dict[tuple[int, StepName], Exception] = {}
        self.job_of: dict[int, str] = {}
        self.failed = threading.Event()

    def __call__(self, run: CampaignRun, loop: int) -> Limit | None:
        self._step(run, loop, StepName.PROPOSAL, Proposal(parent=0))
        self._step(run, loop, StepName.CODING, Nothing())
        self._step(run, loop, StepName.RUNNING, Nothing(), self.job_of.get(loop, f"ftjob-{loop}"))
        self._step(run, loop, StepName.FEEDBACK, Feedback(accepted=False))
        self._step(run, loop, StepName.RECORD, Record(best_loop=0, best_model="base"))
        return None

    def _step(
        self, run: CampaignRun, loop: int, name: StepName, output: Any, job: str | None = None
    ) -> None:
        def do() -> Any:
            self.begun.append((loop, name))
            if (loop, name) in self.fail:
                self.failed.set()
                raise self.fail[loop, name]
            if job is not None:
                run.finished_job(job)
            return output

        run.step(loop, name, type(output), do)

    def jobs(self, *loops: int) -> None:
        with self.campaign.database.write() as session:
            for loop in loops:
                new = NewJob(f"ftjob-{loop}", "fine_tuning", TRAINING.work, TRAINING.validation, {})
                create_job(session, new)

    def end(self, loop: int) -> None:
        with self.campaign.database.write() as session:
            job = get_job(session, f"ftjob-{loop}")
            move_job(session, job, JobStatus.CANCELLED, "ended")


@pytest.fixture
def taking(campaign: StoredCampaign) -> Taking:
    taking = Taking(campaign)
    taking.jobs(1, 2, 3)
    return taking


def test_loops_go_on_at_once_and_a_new_one_begins_when_one_is_recorded(
    campaign: StoredCampaign, taking: Taking
) -> None:
    campaign.create(branches=2, budget={"loops": 3})
    claim = campaign.claim()
    run = campaign.run_of(claim)

    with pytest.raises(Waiting) as waiting:
        take_loops(run, taking)
    assert sorted(waiting.value.jobs) == ["ftjob-1", "ftjob-2"]
    assert waiting.value.reason == "waiting for ftjob-1; waiting for ftjob-2"
    assert run.steps.open_loops() == [1, 2]

    taking.end(2)
    run = campaign.run_of(claim)  # another process goes on with what is recorded
    with pytest.raises(Waiting) as waiting:
        take_loops(run, taking)
    assert sorted(waiting.value.jobs) == ["ftjob-1", "ftjob-3"]
    assert run.steps.open_loops() == [1, 3]

    taking.end(1)
    taking.end(3)
    assert take_loops(campaign.run_of(claim), taking) is Limit.LOOPS
    finished = [each for each in taking.begun if each[1] is not StepName.RUNNING]
    assert len(finished) == len(set(finished)) == 3 * 4, "no finished step ran again"


def test_a_campaign_is_woken_by_the_first_of_its_jobs_that_ends(
    campaign: StoredCampaign, taking: Taking
) -> None:
    campaign.create(branches=2)
    claim = campaign.claim()
    run = campaign.run_of(claim)
    with pytest.raises(Waiting) as waiting:
        take_loops(run, taking)
    campaign.release(claim, waiting.value)
    with pytest.raises(AssertionError):
        campaign.claim()

    taking.end(2)

    assert campaign.claim().job.id == campaign.id


def test_proposals_are_made_one_after_the_other(campaign: StoredCampaign, taking: Taking) -> None:
    campaign.create(branches=3)
    alone = threading.Lock()

    def take(run: CampaignRun, loop: int) -> Limit | None:
        def do() -> Proposal:
            assert alone.acquire(blocking=False)
            assert run.steps.newest_loop == loop
            alone.release()
            return Proposal(parent=0)

        run.step(loop, StepName.PROPOSAL, Proposal, do)
        return taking(run, loop)

    with pytest.raises(Waiting):
        take_loops(campaign.run(), take)


def test_a_limit_of_a_step_holds_while_its_job_runs(
    campaign: StoredCampaign, taking: Taking
) -> None:
    campaign.create(branches=2, steps_at_once={"running": 1}, budget={"loops": 2})
    claim = campaign.claim()

    with pytest.raises(Waiting) as waiting:
        take_loops(campaign.run_of(claim), taking)
    first, second = (1, 2) if waiting.value.jobs == ("ftjob-1",) else (2, 1)
    assert waiting.value.jobs == (f"ftjob-{first}",)
    assert (second, StepName.RUNNING) not in taking.begun

    taking.end(first)
    with pytest.raises(Waiting) as waiting:
        take_loops(campaign.run_of(claim), taking)
    assert waiting.value.jobs == (f"ftjob-{second}",)


def test_steps_are_counted_over_all_loops(campaign: StoredCampaign, taking: Taking) -> None:
    campaign.create(branches=3, budget={"steps": 7, "loops": 9})
    claim = campaign.claim()
    with pytest.raises(Waiting):
        take_loops(campaign.run_of(claim), taking)
    for loop in (1, 2, 3):
        taking.end(loop)

    run = campaign.run_of(claim)

    assert take_loops(run, taking) is Limit.STEPS
    assert run.steps.begun - len(run.steps.outputs(StepName.RECORD)) == 7


def test_a_loop_that_trains_is_judged_though_the_tokens_end_another(
    campaign: StoredCampaign, taking: Taking
) -> None:
    campaign.create(branches=2, budget={"loops": 9})
    taking.fail[2, StepName.CODING] = BudgetSpent(Limit.LLM_TOKENS)
    claim = campaign.claim()
    with pytest.raises(Waiting) as waiting:
        take_loops(campaign.run_of(claim), taking)
    assert waiting.value.jobs == ("ftjob-1",)
    taking.end(1)
    taking.failed.clear()

    def take(run: CampaignRun, loop: int) -> Limit | None:
        assert loop == 2 or taking.failed.wait(60)
        return taking(run, loop)

    run = campaign.run_of(claim)

    assert take_loops(run, take) is Limit.LLM_TOKENS
    assert run.steps.is_finished(1, StepName.RECORD)
    assert run.steps.newest_loop == 2, "no further loop begins"


def test_a_loop_that_begins_to_wait_after_the_tokens_have_ended_goes_on(
    campaign: StoredCampaign, taking: Taking
) -> None:
    campaign.create(branches=2, budget={"loops": 9})
    spent = threading.Event()

    def take(run: CampaignRun, loop: int) -> Limit | None:
        if loop == 2:
            run.step(2, StepName.PROPOSAL, Proposal, lambda: Proposal(parent=0))
            spent.set()
            raise BudgetSpent(Limit.LLM_TOKENS)
        run.step(1, StepName.PROPOSAL, Proposal, lambda: Proposal(parent=0))
        assert spent.wait(60)
        return taking(run, loop)

    with pytest.raises(Waiting) as waiting:
        take_loops(campaign.run(), take)
    assert waiting.value.jobs == ("ftjob-1",)


def test_an_error_of_one_loop_ends_all(campaign: StoredCampaign, taking: Taking) -> None:
    campaign.create(branches=2)
    taking.fail[2, StepName.CODING] = RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        take_loops(campaign.run(), taking)


def judged(campaign: StoredCampaign, right: int) -> CampaignRun:
    """Loop 2 was accepted with 4 right items while loop 1 ran, which has ``right`` ones."""
    campaign.create(branches=2, budget={"loops": 2, "llm_tokens": 1})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.measured_attempt(1, right)
    campaign.measured_attempt(2, 4)
    campaign.step(2, StepName.FEEDBACK, {"accepted": True, "order": 1})
    campaign.step(2, StepName.RECORD, {"best_loop": 2, "best_model": "ft:2"})
    campaign.effect(1, StepName.CODING, "coding.1", prompt_tokens=1)
    run = campaign.run()
    advance(run)
    return run


def test_a_loop_is_compared_with_the_best_model_of_the_time_of_its_verdict(
    campaign: StoredCampaign,
) -> None:
    run = judged(campaign, 3)

    feedback = run.finished(1, StepName.FEEDBACK, Feedback)
    assert (feedback.accepted, feedback.order) == (False, 2), (
        "better than the base, not than loop 2"
    )
    assert best_loop(run) == 2


def test_the_best_model_is_that_of_the_last_accepted_verdict_whatever_its_loop(
    campaign: StoredCampaign,
) -> None:
    run = judged(campaign, SEARCH_ITEMS)

    assert run.finished(1, StepName.FEEDBACK, Feedback).accepted
    assert best_loop(run) == 1


def test_a_verdict_is_made_by_the_policy_of_the_campaign(campaign: StoredCampaign) -> None:
    campaign.create(budget={"loops": 1, "llm_tokens": 1}, acceptance={"by": "mean"})
    campaign.step(0, StepName.BASE, measured("base", 0))
    campaign.measured_attempt(1, 1)  # one more of ten items
    campaign.effect(1, StepName.CODING, "coding.1", prompt_tokens=1)
    run = campaign.run()

    advance(run)

    assert run.finished(1, StepName.FEEDBACK, Feedback).accepted


def proposing(campaign: StoredCampaign, llm: ScriptedLlm, **fields: Any) -> None:
    """Loop 1 was accepted, and loop 2 has started from it."""
    target = {"base_url": f"{llm.origin}/v1", "model": "scripted"}
    campaign.create(branches=2, llm=target, **fields)
    campaign.step(0, StepName.BASE, measured("base", 2))
    campaign.measured_attempt(1, 8)
    campaign.step(1, StepName.FEEDBACK, {"accepted": True, "reason": "sums help", "order": 1})
    campaign.step(1, StepName.RECORD, {"best_loop": 1, "best_model": "ft:1"})
    campaign.step(2, StepName.PROPOSAL, {"parent": 1, "hypothesis": "longer answers"})


def answer(messages: Messages) -> str:
    if "hypothesis" in messages[-1]["content"].rpartition("Answer with")[2]:
        return '{"hypothesis": "other sums"}'
    return '{"reason": "it cannot add", "task": "add"}'


def test_a_loop_sees_the_lessons_and_the_hypotheses_of_its_siblings(
    campaign: StoredCampaign,
) -> None:
    with ScriptedLlm(answer) as llm:
        proposing(campaign, llm)
        run = campaign.run()
        proposal = run.step(3, StepName.PROPOSAL, Proposal, lambda: propose(run))

    shown = str(llm.requests[0][1]["content"])
    assert proposal.parent == 1
    assert "Lesson: sums help" in shown
    assert "Loop 2 (from loop 1): under way. Hypothesis: longer answers" in shown


def test_loops_start_from_different_models_when_they_are_to_spread(
    campaign: StoredCampaign,
) -> None:
    with ScriptedLlm(answer) as llm:
        proposing(campaign, llm, parents="spread")
        run = campaign.run()
        proposal = run.step(3, StepName.PROPOSAL, Proposal, lambda: propose(run))

    assert proposal.parent == 0, "loop 2 is under way from loop 1"
    assert "The best model so far is that of loop 1." in llm.requests[0][1]["content"]


def test_a_proposal_that_is_taken_up_again_asks_the_same_whatever_has_ended_meanwhile(
    campaign: StoredCampaign,
) -> None:
    with ScriptedLlm(answer) as llm:
        proposing(campaign, llm)
        llm.held = lambda messages: len(messages) > 2  # the second turn is not answered
        run = campaign.run()
        killed = threading.Thread(target=_interrupted, args=(campaign, run, llm))
        killed.start()
        with pytest.raises(Interrupted):
            run.step(3, StepName.PROPOSAL, Proposal, lambda: propose(run))
        killed.join()
        campaign.lost()
        campaign.step(2, StepName.CODING, {"script": "pass", "settings": "a: 1"})
        campaign.step(2, StepName.RUNNING, {"measurement": measured("ft:2", 9)})
        campaign.step(2, StepName.FEEDBACK, {"accepted": True, "order": 2})
        campaign.stopping.clear()
        llm.held = lambda _: False

        again = campaign.run()
        proposal = again.step(3, StepName.PROPOSAL, Proposal, lambda: propose(again))

    assert proposal.parent == 1, "the best model when the proposal began"
    assert set(llm.answered.values()) == {1}
    assert llm.requests[1][:2] == llm.requests[0], "the first turn as it was answered"


def _interrupted(campaign: StoredCampaign, run: CampaignRun, llm: ScriptedLlm) -> None:
    assert llm.holding.wait(60)
    campaign.stopping.set()
