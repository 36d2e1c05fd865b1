"""Proposal: where to start from, and what to try, in three turns of JSON."""

from pydantic import Field

from services.campaigns import prompts
from services.campaigns.history import best_loop, measurement_of, search_score, tried
from services.campaigns.llm import Conversation
from services.campaigns.records import Failed, Proposal
from services.campaigns.run import CampaignRun
from services.campaigns.signals import StepFailed
from services.contracts.base import Resource


class _Reason(Resource):
    reason: str = Field(min_length=1)


class _Hypothesis(Resource):
    hypothesis: str = Field(min_length=1)


class _Task(Resource):
    task: str = Field(min_length=1)
    skip_data_processing: bool = False


def propose(run: CampaignRun, loop: int) -> Proposal:
    """Start from the best accepted loop, and have the LLM say what to try."""
    parent = best_loop(run, loop)
    conversation = Conversation(run, "proposal", prompts.system_prompt(run.request))
    measured = measurement_of(run, parent)
    state = prompts.state_text(
        parent,
        search_score(run, measured),
        measured,
        [tried(run, each) for each in range(1, loop)],
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
