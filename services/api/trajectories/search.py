"""Trajectories in which a text occurs, in whatever was said, called or replied."""

from collections.abc import Iterator

from services.contracts.trajectories import ToolCallRecord, Trajectory
from services.datasets.messages import text_of

MOST_SCANNED = 2000
MOST_BYTES = 64 << 20
"""Maximum bytes read per request; a search continues on the next page."""


def contains(trajectory: Trajectory, text: str) -> bool:
    """Whether a text occurs in a trajectory, in upper or lower case."""
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
    """Its arguments are in the text of its turn."""
    yield from (each for each in (call.reply, call.shown, call.error) if each)
