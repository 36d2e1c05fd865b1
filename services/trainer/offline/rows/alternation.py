"""Conversations as the alternating turns that LLaMA-Factory's named templates need."""

import json
from collections.abc import Sequence

from services.datasets.conversation import Conversation, Message
from services.datasets.record import RowError


def alternate(conversation: Conversation, between_results: str) -> tuple[str, list[dict[str, str]]]:
    """The system text and the turns in LLaMA-Factory's sharegpt format.

    Its templates need alternating turns, so results of parallel calls become one turn, joined by
    ``between_results``. Raises RowError for a conversation that does not fit.
    """
    messages = list(conversation.messages)
    system = messages.pop(0).content if messages[0].role == "system" else ""
    turns: list[dict[str, str]] = []
    for message in messages:
        turn = _sharegpt_turn(message)
        if turns and turn["from"] == turns[-1]["from"] == "observation":
            turns[-1]["value"] += between_results + turn["value"]
        else:
            turns.append(turn)
    _check_alternation(turns)
    return system, turns


def _sharegpt_turn(message: Message) -> dict[str, str]:
    if message.role == "system":
        raise RowError("has a system message after the first turn; named templates take only one")
    if message.role != "assistant":
        return {"from": "observation" if message.role == "tool" else "human"} | {
            "value": message.content
        }
    if not message.learned:
        raise RowError("has an assistant turn of weight 0; named templates learn every turn")
    thought = f"<think>\n{message.reasoning}\n</think>\n\n" if message.reasoning else ""
    if not message.tool_calls:
        return {"from": "gpt", "value": thought + message.content}
    calls = json.dumps(
        [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls],
        ensure_ascii=False,
    )
    before = thought + message.content
    # LLaMA-Factory tells text from calls by these markers.
    value = f"{before}\n<tool_call>{calls}</tool_call>" if before else calls
    return {"from": "function_call", "value": value}


def _check_alternation(turns: Sequence[dict[str, str]]) -> None:
    for index, turn in enumerate(turns):
        asks = turn["from"] in {"human", "observation"}
        if asks != (index % 2 == 0):
            raise RowError(
                f"turn {index} is of {turn['from']}; named templates need alternating turns"
            )
