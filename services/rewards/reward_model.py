"""Rewards from a reward model, in a child process with the Python of a runtime."""

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rewards.rewards import RewardModelReward
from services.core.process.runtimes import child_environment
from services.core.process.worker_pool import WorkerFailed, WorkerPool
from services.inference.causes import cause_of
from services.rewards.functions import read_score
from services.rewards.interface import RewardFailed, Sample, Score

CHILD = "services.rewards.reward_models.child"
TRUSTED = "--trusted"
LOADING_SECONDS = 900.0
BATCH_SECONDS = 300.0
MAX_ANSWER_BYTES = 1 << 20

Conversation = list[JsonObject]


@dataclass(frozen=True)
class _Pending:
    conversation: Conversation
    tools: list[JsonObject]
    score: "asyncio.Future[float]"


class RewardModel:
    """Scores conversations in batches. Use it as an async context manager.

    The process starts with the first conversation. A process that dies or hangs costs the batch
    that it was scoring; the next batch gets another. Code that comes with the model runs only
    where it is ``trusted``.
    """

    def __init__(
        self, settings: RewardModelReward, python: Path, folder: Path, *, trusted: bool = False
    ) -> None:
        self._settings = settings
        command = [str(python), "-m", CHILD, str(folder), str(settings.max_length)]
        self._pool = WorkerPool(
            [*command, TRUSTED] if trusted else command,
            1,
            child_environment({"TRANSFORMERS_OFFLINE": "1"}),
            start_seconds=LOADING_SECONDS,
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        self._pending: deque[_Pending] = deque()
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        self._task = asyncio.create_task(self._score_batches())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._pool.__aexit__(*error)

    async def score(self, sample: Sample) -> Score:
        """The model's score of the whole conversation, and of the tools that were on offer."""
        score: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(sample.conversation, sample.trajectory.tools, score))
        self._arrived.set()
        value = await score
        return Score(_sigmoid(value) if self._settings.sigmoid else value)

    async def _score_batches(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while batch := self._next_batch():
                await self._score_batch(batch)

    def _next_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        while self._pending and len(batch) < self._settings.batch_size:
            pending = self._pending.popleft()
            if not pending.score.done():  # the caller may have been cancelled
                batch.append(pending)
        return batch

    async def _score_batch(self, batch: list[_Pending]) -> None:
        """Resolve every future of the batch, even on a bug of ours: no caller may wait forever."""
        try:
            scores = await self._scores(batch)
        except Exception as error:
            message = error.message if isinstance(error, RewardFailed) else self._told(repr(error))
            cause = error.cause if isinstance(error, RewardFailed) else None
            for pending in batch:
                if not pending.score.done():
                    pending.score.set_exception(RewardFailed(message, cause=cause))
            return
        for pending, score in zip(batch, scores, strict=True):
            if not pending.score.done():
                pending.score.set_result(score)

    async def _scores(self, batch: list[_Pending]) -> list[float]:
        request = {
            "conversations": [pending.conversation for pending in batch],
            "tools": [pending.tools for pending in batch],
        }
        try:
            given = await self._pool.call(request, BATCH_SECONDS)
        except WorkerFailed as error:
            cause = cause_of(error) or InfrastructureCause.SERVICE_ERROR
            raise RewardFailed(self._told(error.message), cause=cause) from error
        if not isinstance(given, list) or len(given) != len(batch):
            message = self._told(f"gave no list of {len(batch)} scores")
            raise RewardFailed(message, cause=InfrastructureCause.UNREADABLE)
        return [read_score(score, self._settings.model) for score in given]

    def _told(self, what: str) -> str:
        return f"reward model {self._settings.model}: {what}"


def _sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))
