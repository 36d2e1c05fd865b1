"""Rewards that a reward model gives, in a process with the Python of a runtime."""

import asyncio
import contextlib
import json
import math
import os
import signal
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from services.contracts.base import JsonObject
from services.contracts.rewards import RewardModelReward
from services.core.process.runtimes import child_environment
from services.rewards.component import RewardFailed, Score
from services.rewards.functions import read_score
from services.rewards.sample import Sample

CHILD = "services.rewards.reward_models.child"
LOADING_SECONDS = 900.0
BATCH_SECONDS = 300.0
LARGEST_ANSWER = 1 << 20

Conversation = list[JsonObject]


@dataclass(frozen=True)
class _Waiting:
    conversation: Conversation
    score: "asyncio.Future[float]"


class RewardModel:
    """Scores conversations in batches of what waits. Use it as an async context manager.

    The process starts with the first conversation. One that breaks or hangs costs the batch that
    it worked on, and the next batch gets another.
    """

    def __init__(self, settings: RewardModelReward, python: Path, folder: Path) -> None:
        self._settings = settings
        self._command = [str(python), "-m", CHILD, str(folder), str(settings.max_length)]
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._end()

    async def score(self, sample: Sample) -> Score:
        """The model's score of the whole conversation."""
        score: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(sample.conversation, score))
        self._arrived.set()
        value = await score
        return Score(_sigmoid(value) if self._settings.sigmoid else value)

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while batch := self._next_batch():
                await self._serve(batch)

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < self._settings.batch_size:
            waiting = self._waiting.popleft()
            if not waiting.score.done():  # who asked may be gone
                batch.append(waiting)
        return batch

    async def _serve(self, batch: list[_Waiting]) -> None:
        try:
            scores = await self._scores([waiting.conversation for waiting in batch])
        except RewardFailed as error:
            for waiting in batch:
                if not waiting.score.done():
                    waiting.score.set_exception(RewardFailed(error.message))
            return
        for waiting, score in zip(batch, scores, strict=True):
            if not waiting.score.done():
                waiting.score.set_result(score)

    async def _scores(self, conversations: list[Conversation]) -> list[float]:
        process = self._process or await self._start()
        answer = await self._exchange(process, {"conversations": conversations}, BATCH_SECONDS)
        given = answer.get("scores")
        if not isinstance(given, list):
            raise self._failed(str(answer.get("error", "it gave no answer")))
        scores = [read_score(score, self._settings.model) for score in given]
        if len(scores) != len(conversations):
            raise self._failed("it gave another number of scores")
        return scores

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=child_environment({"TRANSFORMERS_OFFLINE": "1"}),
                limit=LARGEST_ANSWER,
                start_new_session=True,
            )
        except OSError as error:
            raise self._failed(f"it cannot be started: {error}") from error
        first = await self._exchange(process, None, LOADING_SECONDS)
        if "ready" not in first:
            await self._end()
            raise self._failed(str(first.get("error", "it gave no answer")))
        return process

    async def _exchange(
        self, process: asyncio.subprocess.Process, question: JsonObject | None, seconds: float
    ) -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        try:
            async with asyncio.timeout(seconds):
                if question is not None:
                    process.stdin.write(json.dumps(question).encode() + b"\n")
                    await process.stdin.drain()
                line = await process.stdout.readline()
            answer = json.loads(line)
        except (TimeoutError, ConnectionError, ValueError) as error:
            await self._end()
            is_late = isinstance(error, TimeoutError)
            what = f"it did not answer within {seconds:.0f} s" if is_late else "its process ended"
            raise self._failed(what) from error
        return answer if isinstance(answer, dict) else {}

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def _failed(self, what: str) -> RewardFailed:
        return RewardFailed(f"reward model {self._settings.model}: {what}")


def _sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))
