"""What a valid training row holds, in the same terms for every layout."""

from dataclasses import dataclass


@dataclass(slots=True)
class Example:
    """A conversation to learn from.

    ``turns`` are pairs of role and text, with calls as JSON text; ``tools`` is the JSON text of
    the tools offered, or empty. Not frozen, for speed: one is made for every row of a file.
    """

    turns: list[tuple[str, str]]
    answers: int
    tool_calls: int = 0
    tools: str = ""
