"""What messages say of themselves, under the names that published data sets use: whether they are
trained, and the reasoning before their content."""

from collections.abc import Iterable
from typing import Any

from services.datasets.record import JsonValue, RowError, shown

Message = dict[str, Any]

LOSS_KEYS = ("weight", "loss", "train", "trainable", "loss_mask")
"""Keys that say whether an answer has a loss: true or false, 1 or 0."""

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")

_CHAT_KEYS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", *LOSS_KEYS, *REASONING_KEYS}
)
_SHAREGPT_KEYS = frozenset({"from", "value", *LOSS_KEYS, *REASONING_KEYS})
_MESSAGE_KEYS = {"messages": _CHAT_KEYS, "conversations": _SHAREGPT_KEYS}


def is_trained(message: Message) -> bool:
    """Whether a checked message of the assistant has a loss."""
    return not any(message.get(key) in (0, False) for key in LOSS_KEYS if key in message)


def reasoning_of(message: Message) -> str:
    """The reasoning of a checked message; empty without any."""
    return next((message[key] for key in REASONING_KEYS if message.get(key)), "")


def check_fields(message: Message, path: str, *, answers: bool) -> None:
    """Check what a message says of itself; ``answers`` is whether it is the assistant's.

    Raises RowError for a value of another type, keys that contradict each other, and a loss or
    reasoning of a message that is not trained.
    """
    said: dict[bool, str] = {}
    for key in LOSS_KEYS:
        value = message.get(key)
        if value is None:
            continue
        # OpenAI's key is a number; the others are booleans in some data sets, numbers in others.
        if value not in (0, 1) or (key == "weight" and isinstance(value, bool)):
            raise RowError(f"{path}.{key} is {shown(value)}, not 0 or 1")
        if not answers and (value or key == "weight"):
            raise RowError(f"{path}.{key}: only assistant messages have one")
        said.setdefault(bool(value), key)
    if len(said) > 1:
        raise RowError(f"{path}.{said[True]} and {path}.{said[False]} contradict each other")
    _check_reasoning(message, path, answers=answers)


def _check_reasoning(message: Message, path: str, *, answers: bool) -> None:
    texts: dict[str, str] = {}
    for key in REASONING_KEYS:
        value = message.get(key)
        if value is None or value == "":
            continue
        if not isinstance(value, str):
            raise RowError(f"{path}.{key} is {shown(value)}, not a string")
        if not answers:
            raise RowError(f"{path}.{key}: only the assistant reasons")
        texts.setdefault(value, key)
    if len(texts) > 1:
        first, second = list(texts.values())[:2]
        raise RowError(f"{path}.{first} and {path}.{second} differ; give one of them")


def untrained(message: JsonValue) -> JsonValue:
    """A message without what it says about a loss, for training that learns its last answer."""
    if not isinstance(message, dict):
        return message
    return {name: value for name, value in message.items() if name not in LOSS_KEYS}


def unknown_keys(row: dict[str, Any]) -> Iterable[str]:
    """Keys of a checked row's messages that training does not use, as ``messages[].KEY``."""
    for column, known in _MESSAGE_KEYS.items():
        messages = row.get(column)  # of a row in another layout it may be anything
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, dict) and not message.keys() <= known:
                for key in message.keys() - known:
                    if message[key] is not None:
                        yield f"{column}[].{key}"
