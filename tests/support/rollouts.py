"""A chat template, an engine and tools that a test controls."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.trajectories import CallOutcome
from services.inference.token_engine.base import EngineFailed, SampledTokens, TurnSampling
from services.rollouts.chat.conversations import ChatTokens, DemonstrationTokens
from services.rollouts.prompts import Prompt
from services.rollouts.tools.base import EpisodeStart, ToolReply

END = 0
"""The token that ends a turn; every other token is the character of its number."""

END_TEXT = "<end>"


def tokens(text: str) -> list[int]:
    """The tokens of a text, in which `END_TEXT` is the token `END`."""
    first, *rest = text.split(END_TEXT)
    return [*map(ord, first), *(token for part in rest for token in (END, *map(ord, part)))]


class CharacterChat(ChatTokens):
    """Conversations as ``role:content<end>``, a token a character."""

    stop_token_ids = (END,)
    vocabulary = 0x110000

    def __init__(self) -> None:
        """Without the files of a model."""

    def prompt(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
        if any(message["role"] == "refused" for message in messages):
            raise InvalidRequest("the template knows no role refused")
        offered = "".join(f"offer:{tool['function']['name']}{END_TEXT}" for tool in tools)
        rendered = "".join(f"{m['role']}:{m['content']}{END_TEXT}" for m in messages)
        return tokens(f"{offered}{rendered}assistant:")

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(END_TEXT if token == END else chr(token) for token in token_ids)

    def replies(
        self, turn: Sequence[int], contents: Sequence[str], names: Sequence[str] = ()
    ) -> list[int]:
        close = [] if turn and turn[-1] == END else [END]
        rendered = [token for content in contents for token in (*map(ord, f"tool:{content}"), END)]
        return [*close, *rendered, *map(ord, "assistant:")]

    def following(
        self,
        turn: Sequence[int],
        messages: Sequence[JsonObject] = (),
        *,
        replies: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> list[int]:
        opening = len("assistant:")
        if any(message["role"] == "system" for message in messages):
            raise InvalidRequest("the template knows no system message there")
        rendered = "".join(f"{m['role']}:{m['content']}{END_TEXT}" for m in messages)
        replied = self.replies(turn, replies, names)[:-opening]
        return [*replied, *tokens(f"{rendered}assistant:")]

    def demonstration(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        answers: Sequence[JsonObject],
    ) -> DemonstrationTokens:
        ids: list[int] = []
        mask: list[int] = []
        for position, answer in enumerate(answers):
            own = answer["role"] == "assistant"
            opening = "" if position == 0 else f"{answer['role']}:"
            rendered = tokens(f"{answer['content']}{END_TEXT}")
            ids += [*map(ord, opening), *rendered]
            mask += [0] * len(opening) + [int(own)] * len(rendered)
        return DemonstrationTokens(ids, mask)


@dataclass
class ScriptedEngine:
    """Says what ``script`` gives for the text so far, and cuts it at ``max_tokens``.

    Every turn takes ``seconds``; ``policy_version`` may be changed at any time. A script that
    gives an `EngineFailed` raises it.
    """

    script: Callable[[str], str | EngineFailed]
    seconds: float = 0.0
    policy_version: int = 0
    asked: list[tuple[str, TurnSampling]] = field(default_factory=list)

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        rendered = CharacterChat().text(token_ids)
        self.asked.append((rendered, sampling))
        await asyncio.sleep(self.seconds)
        answer = self.script(rendered)
        if isinstance(answer, EngineFailed):
            raise answer
        sampled = tokens(answer)[: sampling.max_tokens]
        whole = bool(sampled) and sampled[-1] in sampling.stop_token_ids
        return SampledTokens(
            token_ids=tuple(sampled),
            log_probs=tuple(-1.0 / (1 + token) for token in sampled),
            policy_versions=(self.policy_version,) * len(sampled),
            finish_reason="stop" if whole else "length",
        )


def saying(*turns: str) -> ScriptedEngine:
    """An engine that says one turn after the other, in one conversation."""
    left = iter(turns)
    return ScriptedEngine(lambda _: next(left))


ToolFunction = Callable[..., Awaitable[str]]


@dataclass
class FunctionToolbox:
    """Tools that are functions; what one raises is a failure of the call."""

    functions: Mapping[str, ToolFunction]
    called: list[tuple[str, JsonObject | None]] = field(default_factory=list)
    episodes: list[EpisodeStart] = field(default_factory=list)

    @property
    def schemas(self) -> tuple[JsonObject, ...]:
        return tuple(
            {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
            for name in self.functions
        )

    def offered(self, source: str | None) -> tuple[JsonObject, ...]:
        return self.schemas

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        self.called.append((name, arguments))
        if name not in self.functions:
            return _failed(CallOutcome.UNKNOWN_TOOL, f"there is no tool {name}", attempts=0)
        if arguments is None:
            return _failed(CallOutcome.INVALID_ARGUMENTS, "no JSON object", attempts=0)
        try:
            text = await self.functions[name](**arguments)
        except ToolDown as error:
            failed = _failed(CallOutcome.FAILED, str(error), attempts=3)
            return replace(failed, cause=InfrastructureCause.REFUSED, failures=1)
        except ToolBroke as error:
            return _failed(CallOutcome.FAILED, str(error), attempts=3)
        return ToolReply(CallOutcome.ANSWERED, text, None, 1, 0.0)

    async def probe(self, name: str) -> str | None:
        return None if name in self.functions else f"there is no tool {name}"

    async def discover(self, position: int) -> str | None:
        return f"no server tells the tools of declaration {position}"

    @asynccontextmanager
    async def episode(self, start: EpisodeStart) -> AsyncIterator["FunctionEpisode"]:
        self.episodes.append(start)
        yield FunctionEpisode(self)


@dataclass
class FunctionEpisode:
    """One rollout's use of the functions, without sessions."""

    toolbox: FunctionToolbox
    opening: str | None = None
    environments: Sequence[EnvironmentRecord] = ()

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        return await self.toolbox.call(name, arguments)


class ToolBroke(Exception):
    """What a function raises to fail its call."""


class ToolDown(Exception):
    """What a function raises where the infrastructure fails its call."""


def _failed(outcome: CallOutcome, error: str, *, attempts: int) -> ToolReply:
    return ToolReply(outcome, f"Error: {error}", error, attempts, 0.0)


async def echo(text: str = "", seconds: float = 0.0) -> str:
    """A tool that says what it was given, after a while."""
    await asyncio.sleep(seconds)
    return text


def hermes(name: str, **arguments: Any) -> str:
    """A call as Hermes models write it."""
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{call}\n</tool_call>"


def question(text: str = "q", index: int = 0, **extra: Any) -> Prompt:
    """A prompt of one message."""
    return Prompt(index, ({"role": "user", "content": text},), ("right",), extra)
