"""The input, output and errors of a reward component."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from services.contracts.base import JsonObject
from services.contracts.errors import TemperError
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory, Turn
from services.inference.causes import cause_of
from services.metrics.extraction import strip_reasoning


class RewardFailureKind(StrEnum):
    """Why there is no score, named as OpenAI's error flags without their ``_error``."""

    INVALID_VARIABLE = "invalid_variable"
    SAMPLE_PARSE = "sample_parse"
    MODEL_PARSE = "model_grader_parse"
    MODEL_SERVER = "model_grader_server"
    PYTHON_RUNTIME = "python_grader_runtime"
    PYTHON_SERVER = "python_grader_server"
    OTHER = "other"


class RewardFailed(TemperError):
    """A component could not score a sample; the message says why."""

    code = "reward_failed"

    def __init__(
        self,
        message: str,
        kind: RewardFailureKind = RewardFailureKind.OTHER,
        cause: InfrastructureCause | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self._infrastructure = cause

    @property
    def cause(self) -> InfrastructureCause | None:
        """What the infrastructure failed at: as given, or as the error says that this one was
        raised from. None where the row, the answer or a user's function is at fault."""
        if self._infrastructure is not None or self.__cause__ is None:
            return self._infrastructure
        if isinstance(self.__cause__, RewardFailed):
            return self.__cause__.cause
        return cause_of(self.__cause__)


@dataclass(frozen=True)
class Score:
    """A finite number, its parts and its cost.

    ``parts`` are the scores that a multi grader combines, ``tokens`` counts the tokens of each
    judge, ``extracted`` is the text that a gold grader compared. ``measures`` are numbers
    of this answer that are averaged over the answers of its ``group``. ``vote`` is the normal form
    of ``extracted``, which only equal answers share; None where ``extracted`` is that itself.
    """

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    extracted: str | None = None
    group: str | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    vote: str | None = None


class Component(Protocol):
    """A reward component: scores samples; safe to use from many tasks concurrently."""

    async def score(self, sample: "Sample") -> Score:
        """Score one sample; raises `RewardFailed`."""
        ...


@runtime_checkable
class ComparesAnswers(Protocol):
    """A component that compares answers with each other as it compares them with golds."""

    async def are_equal(self, one: str, other: str) -> bool | None:
        """Whether of two texts that it ``extracted`` each is right where the other is the gold;
        None if comparing them exceeds its limits. Raises `RewardFailed` if nothing can be."""
        ...


_TURN_END = re.compile(
    r"(?:<\|[\w ]{1,40}\|>|</s>|<eos>|<end_of_turn>|<\uff5c[^<>]{1,40}\uff5c>)\s*\Z"
)
_TURN_END_CHARACTERS = 256
_TOKEN_LISTS = {
    *("prompt_token_ids", "response_token_ids", "response_mask", "log_probs", "policy_versions"),
}


@dataclass(frozen=True)
class Sample:
    """A trajectory as rewards see it.

    ``texts`` are the model's own, one a turn, without the special tokens that end a turn: what a
    tool inserted is not among them. ``item`` are the fields of its row, as templates name them.
    ``keeps_reasoning``: the answer is the whole last turn.
    """

    trajectory: Trajectory
    texts: tuple[str, ...]
    item: JsonObject
    keeps_reasoning: bool = False

    @classmethod
    def of(cls, trajectory: Trajectory, item: JsonObject | None = None) -> "Sample":
        """Read a trajectory; ``item`` null: what the trajectory knows of its row."""
        texts = tuple(without_turn_end(turn.text) for turn in trajectory.turns)
        return cls(trajectory, texts, _item(trajectory) if item is None else item)

    @classmethod
    def of_answer(
        cls,
        text: str,
        messages: Sequence[JsonObject] = (),
        gold: Sequence[str] = (),
        extra: JsonObject | None = None,
        environments: Sequence[EnvironmentRecord] = (),
    ) -> "Sample":
        """A single turn after ``messages``; ``extra`` holds the other fields of its row, and
        ``environments`` the steps that led to the turn."""
        trajectory = Trajectory(
            id="sample",
            prompt_index=0,
            messages=list(messages),
            gold=list(gold),
            extra=extra or {},
            prompt_token_ids=[],
            turns=[Turn(text=text, token_start=0, token_count=0, finish_reason="stop")],
            finish_reason=FinishReason.ANSWERED,
            environments=list(environments),
        )
        return cls.of(trajectory)

    @property
    def gold(self) -> tuple[str, ...]:
        """The gold answers."""
        return tuple(self.trajectory.gold)

    @cached_property
    def response(self) -> str:
        """All text that the model wrote."""
        return "\n".join(self.texts)

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """The model's turns, without their reasoning unless that is kept."""
        if self.keeps_reasoning:
            return self.texts
        return tuple(map(_without_reasoning, self.texts))

    @property
    def answer(self) -> str:
        """The last of ``answers``, empty without one."""
        return self.answers[-1] if self.answers else ""

    @property
    def tool_turns(self) -> int:
        """Number of turns in which a tool answered."""
        return sum(
            any(call.outcome is CallOutcome.ANSWERED for call in turn.calls)
            for turn in self.trajectory.turns
        )

    @property
    def calls(self) -> list[JsonObject]:
        """The calls that were executed, in OpenAI's format except that arguments are objects."""
        return [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for turn in self.trajectory.turns
            for call in turn.calls
            if call.outcome is not CallOutcome.DROPPED
        ]

    @property
    def conversation(self) -> list[JsonObject]:
        """The prompt's messages, the model's turns, and what it read of each call's reply."""
        messages = list(self.trajectory.messages)
        for turn, text in zip(self.trajectory.turns, self.texts, strict=True):
            messages.append({"role": "assistant", "content": text})
            messages += [
                {"role": "tool", "name": call.name, "content": call.shown}
                for call in turn.calls
                if call.shown is not None
            ]
        return messages

    @property
    def record(self) -> JsonObject:
        """The trajectory as JSON without its lists of tokens, and with all that the model wrote
        as ``response``."""
        fields = self.trajectory.model_dump(mode="json", exclude=_TOKEN_LISTS)
        return {**fields, "response": self.response}

    @cached_property
    def namespace(self) -> JsonObject:
        """``sample`` as templates and programs see it; ``output_json`` is null where the model's
        last turn is not JSON."""
        message = {"role": "assistant", "content": self.answer, "tool_calls": self.calls}
        return {
            "output_text": self.answer,
            "output_json": _decoded(self.answer),
            "output_tools": self.calls,
            "choices": [{"message": message}],
            "response": self.response,
            "prompt": self.prompt,
        }

    @property
    def prompt(self) -> str:
        """The conversation that the model was to continue, as text."""
        return "\n\n".join(
            f"{message.get('role')}: {message.get('content')}"
            for message in self.trajectory.messages
        )


def _without_reasoning(text: str) -> str:
    answer = strip_reasoning(text)
    return text if len(answer) == len(text) else answer.strip()


def without_turn_end(text: str) -> str:
    """A turn without the special tokens, and the white space behind them, that end it."""
    tail = text[-_TURN_END_CHARACTERS:]
    while match := _TURN_END.search(tail):
        tail = tail[: match.start()]
    return text[:-_TURN_END_CHARACTERS] + tail


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _item(trajectory: Trajectory) -> JsonObject:
    gold: object = trajectory.gold[0] if len(trajectory.gold) == 1 else trajectory.gold
    asked = [message for message in trajectory.messages if message.get("role") == "user"]
    question = asked[-1].get("content") if asked else None
    return {
        "messages": trajectory.messages,
        "question": question,
        "prompt": question,
        "gold": gold,
        "answer": gold,
        **trajectory.extra,
    }
