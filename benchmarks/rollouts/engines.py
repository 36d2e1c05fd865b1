"""Engines with scripted output, whose time is simulated or that of a real server."""

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
    """The time that sampling takes; ``sampled`` counts the tokens so far."""

    sampled: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of the sampler so far, outside this process."""
        ...

    async def sample(self, token_ids: Sequence[int], sampling: TurnSampling, /) -> None:
        """Wait as long as sampling ``sampling.max_tokens`` tokens after ``token_ids`` takes."""
        ...


class FixedRate:
    """Every sequence gets a fixed number of tokens per second, at any concurrency."""

    def __init__(self, tokens_per_second: float) -> None:
        self._tokens_per_second = tokens_per_second
        self.sampled = 0

    def cpu_seconds(self) -> float:
        return 0.0

    async def sample(self, _: Sequence[int], sampling: TurnSampling) -> None:
        self.sampled += sampling.max_tokens
        await asyncio.sleep(sampling.max_tokens / self._tokens_per_second)


class AtOnce:
    """Takes no time, but yields to other tasks."""

    def __init__(self) -> None:
        self.sampled = 0

    def cpu_seconds(self) -> float:
        return 0.0

    async def sample(self, _: Sequence[int], sampling: TurnSampling) -> None:
        self.sampled += sampling.max_tokens
        await asyncio.sleep(0)


class Served:
    """A server, a child of this process, samples as many tokens; their content is ignored."""

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
    """Returns the scripted turns of conversations at a pace.

    ``model_seconds`` holds each conversation's time spent waiting for the model.
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
        """Return the tokens of a conversation's remaining turns."""
        return list(self._turns[session])

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        session = sampling.session or ""
        turn = self._turns[session].popleft()
        begun = time.perf_counter()
        await self._pace.sample(token_ids, replace(sampling, max_tokens=len(turn)))
        self.model_seconds[session] += time.perf_counter() - begun
        return SampledTokens(tuple(turn), (-0.5,) * len(turn), (0,) * len(turn), "stop")
