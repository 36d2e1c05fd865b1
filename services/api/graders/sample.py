"""What a grader is run on, as a trajectory of one turn."""

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.graders import OpenAiGrader
from services.contracts.grading import RunGrader
from services.contracts.trajectories import FinishReason, Trajectory, Turn
from services.datasets.record import RowError
from services.rewards.sample import Sample
from services.rollouts.prompts import prompt_of_row

_PROMPT_KEYS = ("messages", "prompt", "question")


def sample_of(body: RunGrader) -> Sample:
    """The text as the only turn after the item's prompt, with the item's right answers.

    OpenAI's graders take any item. For the rewards of ours it is a row: raises `InvalidRequest`
    for messages or answers that no row could have.
    """
    trajectory = Trajectory(
        id="sample",
        prompt_index=0,
        messages=[],
        prompt_token_ids=[],
        turns=[Turn(text=body.model_sample, token_start=0, token_count=0, finish_reason="stop")],
        finish_reason=FinishReason.ANSWERED,
    )
    if not isinstance(body.grader, OpenAiGrader):
        trajectory = trajectory.model_copy(update=_row_fields(body.item))
    return Sample.of(trajectory, body.item)


def _row_fields(item: JsonObject) -> JsonObject:
    row = dict(item)
    has_prompt = any(row.get(key) is not None for key in _PROMPT_KEYS)
    if not has_prompt:  # rewards may do without one, rollouts cannot
        row["prompt"] = "-"
    try:
        prompt = prompt_of_row(row, 0)
    except RowError as error:
        raise InvalidRequest(f"item.{error.message}", param="item") from None
    messages = list(prompt.messages) if has_prompt else []
    return {"messages": messages, "gold": list(prompt.gold), "extra": prompt.extra}
