"""The system message of a conversation."""

from collections.abc import Sequence

from services.contracts.base import JsonObject


def with_one_system(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages with all system messages joined at their beginning: most chat templates read
    only that one, and some refuse others."""
    systems = [message["content"] for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    joined = {"role": "system", "content": "\n\n".join(systems)}
    return [joined, *others] if systems else others
