"""The loop's interface to a model: begin a conversation, take turns, and read replies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.rollouts.trajectories import Turn
from services.rollouts.parsers import ParsedCall
from services.rollouts.prompts import Prompt
from services.rollouts.recording import CallRun, Recording, RolloutEnd


@dataclass(frozen=True)
class ModelTurn:
    """A turn of the model, already recorded, and its calls in order."""

    turn: Turn
    calls: Sequence[ParsedCall]


class Conversation(Protocol):
    """One conversation with a model, recorded as it proceeds."""

    async def turn(self) -> ModelTurn:
        """Let the model take a turn; raises `EngineFailed`."""
        ...

    def reply(self, runs: Sequence[CallRun]) -> bool:
        """Insert the replies to the first calls of the model's turn. False, with nothing inserted,
        if they exceed the remaining response budget."""
        ...


class ConversationModel(Protocol):
    """Takes the model's turns of conversations; safe for concurrent use."""

    def begin(
        self, recording: Recording, prompt: Prompt, tools: Sequence[JsonObject]
    ) -> Conversation | RolloutEnd:
        """Begin a conversation that offers ``tools`` to the model, or say why it cannot begin."""
        ...
