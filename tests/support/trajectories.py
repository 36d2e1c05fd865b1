"""Trajectories for tests of what stores, lists and counts them."""

from typing import Any

from services.contracts.rollouts.trajectories import (
    CallOutcome,
    FinishReason,
    MalformedCall,
    ToolCallRecord,
    Trajectory,
    Turn,
)


def trajectory(
    prompt: int = 0,
    sample: int = 0,
    *,
    tokens: int = 2,
    calls: list[ToolCallRecord] | None = None,
    malformed: int = 0,
    **fields: Any,
) -> Trajectory:
    """A rollout of one turn of ``tokens`` tokens, with the calls of that turn."""
    turn = Turn(
        text=f"answer {prompt}.{sample}",
        token_start=0,
        token_count=tokens,
        finish_reason="stop",
        calls=calls or [],
        malformed=[MalformedCall(text="{", reason="torn")] * malformed,
    )
    values: dict[str, Any] = {
        "finish_reason": FinishReason.ANSWERED,
        "messages": [{"role": "user", "content": f"question {prompt}"}],
        "prompt_token_ids": [1, 2, 3],
    }
    return Trajectory(
        id=f"traj-{prompt}-{sample}",
        prompt_index=prompt,
        sample_index=sample,
        response_token_ids=[7] * tokens,
        response_mask=[1] * tokens,
        log_probs=[-0.5] * tokens,
        policy_versions=[0] * tokens,
        turns=[turn],
        **(values | fields),
    )


def call(
    name: str = "search", outcome: CallOutcome = CallOutcome.ANSWERED, **fields: Any
) -> ToolCallRecord:
    """A call with the reply that suits its outcome."""
    answered = outcome is CallOutcome.ANSWERED
    values: dict[str, Any] = {
        "arguments": {"q": "x"},
        "reply": "found" if answered else None,
        "shown": "found" if answered else "it failed",
        "error": None if answered else "it failed",
        "attempts": 1,
        "seconds": 0.5,
    }
    return ToolCallRecord(name=name, outcome=outcome, **(values | fields))


def endpoint_trajectory(*, counted: bool = True, **fields: Any) -> Trajectory:
    """A conversation of a chat endpoint, which gives no token ids: a call, its reply, an answer.

    ``counted``: the endpoint counts the tokens of its turns, 7 and 5; the reply's 90 are estimated.
    """
    prompt_tokens = 11 if counted else None
    turn = {"token_start": 0, "finish_reason": "stop", "prompt_tokens": prompt_tokens}
    asking = Turn(text="", token_count=7, inserted_count=90, calls=[call()], **turn)
    answering = Turn(text="It is found.", token_count=5, **turn)
    return trajectory(tokens=0, **fields).model_copy(
        update={"prompt_token_ids": [], "turns": [asking, answering]}
    )
