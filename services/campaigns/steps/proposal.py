"""Proposal: the parent loop and the change to try, in three turns of JSON."""

from pydantic import Field

from services.campaigns.llm import prompts
from services.campaigns.llm.conversation import Conversation
from services.campaigns.run.effects import Effect
from services.campaigns.run.history import (
    accepted_loops,
    judged_loops,
    measurement_of,
    search_score,
    tried,
)
from services.campaigns.run.records import Failed, Proposal
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.contracts.base import Resource
from services.contracts.campaigns.campaigns import ParentPolicy
from services.contracts.campaigns.loops import StepName
from services.jobs.campaign_records import KNOWN


class _Reason(Resource):
    reason: str = Field(min_length=1)


class _Hypothesis(Resource):
    hypothesis: str = Field(min_length=1)


class _Task(Resource):
    task: str = Field(min_length=1)
    skip_data_processing: bool = False


class _Known(Resource):
    """The input of a proposal. It is recorded, since other loops proceed meanwhile: a rerun of the
    step queries the LLM with the same input, and gets the responses that were paid for."""

    best: int
    parent: int
    tried: list[int] = Field(description="Loops with a verdict, described to the LLM.")
    under_way: list[int] = Field(description="Loops without one that have a proposal.")


def propose(run: CampaignRun) -> Proposal:
    """Start from an accepted model, and have the LLM propose a change."""
    known = _Known.model_validate(run.once(KNOWN, lambda: _look(run)).response)
    parent = known.parent
    conversation = Conversation(run, "proposal", prompts.system_prompt(run.request))
    measured = measurement_of(run, parent)
    lessons = {each: tried(run, each).lesson() for each in known.tried}
    lessons |= {
        each: prompts.under_way_text(each, run.finished(each, StepName.PROPOSAL, Proposal))
        for each in known.under_way
    }
    state = prompts.state_text(
        parent,
        known.best,
        search_score(run, measured),
        measured,
        [lessons[each] for each in sorted(lessons)],
    )
    try:
        reason = conversation.ask_json(f"{state}\n\n{prompts.REASON}", _Reason).reason
        hypothesis = conversation.ask_json(prompts.HYPOTHESIS, _Hypothesis).hypothesis
        task = conversation.ask_json(prompts.TASK, _Task)
    except StepFailed as failed:
        return Proposal(
            parent=parent, failed=Failed(failure=failed.failure, message=failed.message)
        )
    return Proposal(
        parent=parent,
        reason=reason,
        hypothesis=hypothesis,
        task=task.task,
        skip_data_processing=task.skip_data_processing and parent > 0,
    )


async def _look(run: CampaignRun) -> Effect:
    accepted, judged = accepted_loops(run), judged_loops(run)
    proposals = run.steps.outputs(StepName.PROPOSAL)
    under_way = [
        loop for loop in run.steps.open_loops() if loop in proposals and loop not in judged
    ]
    taken = {proposals[loop]["parent"] for loop in under_way}
    parent = accepted[-1]
    if run.request.parents is ParentPolicy.SPREAD:
        parent = next((loop for loop in reversed(accepted) if loop not in taken), parent)
    known = _Known(
        best=accepted[-1],
        parent=parent,
        tried=judged[-prompts.LESSONS :],
        under_way=under_way,
    )
    return Effect(known.model_dump(mode="json"))
