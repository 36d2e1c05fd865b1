"""What the loop asks of a model: to begin a conversation, take turns, and read replies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.trajectories import Turn
from services.rollouts.parsers import ParsedCall
from services.rollouts.prompts import Prompt
from services.rollouts.recording import CallRun, Recording, RolloutEnd


@dataclass(frozen=True)
class SpokenTurn:
    """A turn of the model, already recorded, and the calls in it in their order."""

    turn: Turn
    calls: Sequence[ParsedCall]


class Conversation(Protocol):
    """One conversation with a model; what happens is recorded."""

    async def turn(self) -> SpokenTurn:
        """Let the model take a turn; raises `EngineFailed`."""
        ...

    def reply(self, runs: Sequence[CallRun]) -> bool:
        """Let the model read the replies to the first calls of its turn. False, with nothing
        inserted, if they do not fit into what is left of the response."""
        ...


class ConversationModel(Protocol):
    """Takes the model's turns of conversations; safe for concurrent use."""

    def begin(
        self, recording: Recording, prompt: Prompt, tools: Sequence[JsonObject]
    ) -> Conversation | RolloutEnd:
        """Begin a conversation whose model is told about ``tools``, or say why there is none."""
        ...
