"""Engines with scripted output, whose time is simulated or a real server's."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import psutil
from tokenizers import Tokenizer

from benchmarks.rollouts.conversations import Conversation
from services.inference.token_engine.base import SampledTokens, TokenEngine, TurnSampling

END_OF_TURN = "<|im_end|>"


class Pace(Protocol):
    """How long sampling takes; ``sampled`` are the tokens so far."""

    sampled: int

    def cpu_seconds(self) -> float:
        """CPU time so far of what samples, beside this process."""
        ...

    async def sample(self, token_ids: Sequence[int], sampling: TurnSampling, /) -> None:
        """Wait as long as ``sampling.max_tokens`` tokens behind ``token_ids`` take."""
        ...


class FixedRate:
    """Every sequence has so many tokens a second, however many there are at once."""

    def __init__(self, tokens_per_second: float) -> None:
        self._tokens_per_second = tokens_per_second
        self.sampled = 0

    def cpu_seconds(self) -> float:
        return 0.0

    async def sample(self, _: Sequence[int], sampling: TurnSampling) -> None:
        self.sampled += sampling.max_tokens
        await asyncio.sleep(sampling.max_tokens / self._tokens_per_second)


class AtOnce:
    """Takes no time, but lets others run."""

    def __init__(self) -> None:
        self.sampled = 0

    def cpu_seconds(self) -> float:
        return 0.0

    async def sample(self, _: Sequence[int], sampling: TurnSampling) -> None:
        self.sampled += sampling.max_tokens
        await asyncio.sleep(0)


class Served:
    """A server, a child of this process, samples as many tokens; what they are does not matter."""

    def __init__(self, engine: TokenEngine) -> None:
        self._engine = engine
        self.sampled = 0

    def cpu_seconds(self) -> float:
        return sum(
            times.user + times.system
            for process in psutil.Process().children(recursive=True)
            for times in [process.cpu_times()]
        )

    async def sample(self, token_ids: Sequence[int], sampling: TurnSampling) -> None:
        sampled = await self._engine.generate(token_ids, replace(sampling, stop_token_ids=()))
        self.sampled += len(sampled.token_ids)


class ScriptedEngine:
    """Says the turns of conversations, one after the other, at a pace.

    ``model_seconds`` are what each conversation waited for its turns.
    """

    def __init__(self, conversations: Sequence[Conversation], tokenizer: Path, pace: Pace) -> None:
        encode = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).encode
        self.model_seconds: defaultdict[str, float] = defaultdict(float)
        self._pace = pace
        self._turns = {
            each.session: deque(
                encode(turn + END_OF_TURN, add_special_tokens=False).ids for turn in each.turns
            )
            for each in conversations
        }

    def turns(self, session: str) -> list[list[int]]:
        """The tokens of the turns that a conversation has yet to hear."""
        return list(self._turns[session])

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        session = sampling.session or ""
        turn = self._turns[session].popleft()
        begun = time.perf_counter()
        await self._pace.sample(token_ids, replace(sampling, max_tokens=len(turn)))
        self.model_seconds[session] += time.perf_counter() - begun
        return SampledTokens(tuple(turn), (-0.5,) * len(turn), (0,) * len(turn), "stop")
