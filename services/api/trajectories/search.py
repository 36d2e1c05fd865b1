"""Text search in the messages, calls and tool results of trajectories."""

from collections.abc import Iterator

from services.contracts.rollouts.trajectories import ToolCallRecord, Trajectory
from services.datasets.messages import text_of

MAX_SCANNED = 2000
MAX_BYTES = 64 << 20
"""Maximum bytes read per request; a search continues on the next page."""


def contains(trajectory: Trajectory, text: str) -> bool:
    """Whether a trajectory contains a text, ignoring case."""
    wanted = text.casefold()
    return any(wanted in each.casefold() for each in _texts(trajectory))


def _texts(trajectory: Trajectory) -> Iterator[str]:
    yield from map(text_of, trajectory.messages)
    yield from trajectory.gold
    yield from (each for each in (trajectory.error, trajectory.reward_error) if each)
    for turn in trajectory.turns:
        yield turn.text
        for call in turn.calls:
            yield from _call_texts(call)


def _call_texts(call: ToolCallRecord) -> Iterator[str]:
    """Texts of a call; its arguments are in the text of its turn."""
    yield from (each for each in (call.reply, call.shown, call.error) if each)
