"""The encoder's bounded queue, and the batches its threads take from it."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.errors import EncoderBusy, EncoderTimeout
from services.retrieval.encoder.protocol import Operation
from services.retrieval.encoder.specification import TextKind

Array = NDArray[np.float32]


class EncoderTask:
    """Texts to encode, or a query and passages to score. ``finished`` is called once, from any
    thread, with the result (texts, columns) or an error, or with neither if the task was dropped.
    """

    def __init__(
        self,
        operation: Operation,
        kind: TextKind,
        texts: Sequence[str],
        deadline: float,
        finished: Callable[[Array | None, Exception | None], None],
    ) -> None:
        self.operation = operation
        self.kind = kind
        self.texts = texts
        self.deadline = deadline
        self.taken = 0
        self._finished = finished
        self._lock = threading.Lock()
        self._result: Array | None = None
        self._missing = len(texts)
        self._over = False

    @property
    def over(self) -> bool:
        """Whether nothing more of it needs computing."""
        return self._over

    def put(self, begin: int, rows: Array) -> None:
        """Store the rows of the texts from position ``begin`` on."""
        with self._lock:
            if self._over:
                return
            if self._result is None:
                self._result = np.empty((len(self.texts), rows.shape[1]), np.float32)
            self._result[begin : begin + len(rows)] = rows
            self._missing -= len(rows)
            if self._missing:
                return
            self._over = True
        self._finished(self._result, None)

    def fail(self, error: Exception) -> None:
        """Fail the task; no effect when it is done."""
        if self._end():
            self._finished(None, error)

    def drop(self) -> None:
        """Drop the task: its client disconnected."""
        if self._end():
            self._finished(None, None)

    def _end(self) -> bool:
        with self._lock:
            ended, self._over = not self._over, True
        return ended


@dataclass(frozen=True)
class Piece:
    """Consecutive texts of a task, computed in one batch with others."""

    task: EncoderTask
    begin: int
    end: int

    @property
    def texts(self) -> Sequence[str]:
        """The texts themselves."""
        return self.task.texts[self.begin : self.end]


MAX_WAITING = 65_536
MAX_CHARACTERS = 64 << 20
BATCH_CHARACTERS = 32_768
"""Approximate size of a thread's batch: hundreds of queries, or dozens of passages."""

MIN_TEXTS = 8
"""Minimum texts per thread: smaller batches are inefficient."""

PASSAGE_INTERVAL = 4
"""Queries have priority, but passages go first in every n-th batch, so neither starves."""

IDLE_SECONDS = 1.0


class TaskQueue:
    """A bounded queue that merges many requests into batches."""

    def __init__(self, max_text_characters: int) -> None:
        """Characters beyond ``max_text_characters`` do not add to a text's cost."""
        self._max_text_characters = max_text_characters
        self._queries: deque[EncoderTask] = deque()
        self._passages: deque[EncoderTask] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._texts = 0
        self._characters = 0
        self._batches = 0
        self._closed = False

    def add(self, task: EncoderTask) -> None:
        """Enqueue a task; raises `EncoderBusy` when the queue is full."""
        characters = sum(map(len, task.texts))
        with self._changed:
            if self._texts + len(task.texts) > MAX_WAITING or (
                self._texts and self._characters + characters > MAX_CHARACTERS
            ):
                raise EncoderBusy(f"{self._texts} texts are already queued")
            self._texts += len(task.texts)
            self._characters += characters
            lane = self._queries if task.kind is TextKind.QUERY else self._passages
            lane.append(task)
            self._changed.notify_all()

    def take(self, *, scores_alone: bool) -> list[Piece]:
        """Wait for tasks and take a batch; empty once the queue is closed.

        With ``scores_alone`` scoring tasks are not mixed with others. Tasks past their deadline
        fail here.
        """
        with self._changed:
            self._idle += 1
            try:
                while not self._closed:
                    if pieces := self._next_batch(scores_alone):
                        return pieces
                    self._changed.wait(IDLE_SECONDS)
                return []
            finally:
                self._idle -= 1

    def fail(self, error: Exception) -> None:
        """Fail everything queued and release the waiting threads."""
        with self._changed:
            self._closed = True
            for task in (*self._queries, *self._passages):
                task.fail(error)
            self._queries.clear()
            self._passages.clear()
            self._changed.notify_all()

    def _next_batch(self, scores_alone: bool) -> list[Piece]:
        self._remove_ended()
        rows = max(MIN_TEXTS, math.ceil(self._texts / self._idle))
        characters = BATCH_CHARACTERS
        pieces: list[Piece] = []
        for lane in self._lanes():
            while lane and rows > 0 and characters > 0:
                task = lane[0]
                alone = scores_alone and task.operation is Operation.SCORE
                if alone and pieces:
                    return pieces
                end = task.taken
                while end < len(task.texts) and rows > 0 and characters > 0:
                    characters -= min(len(task.texts[end]), self._max_text_characters) + 1
                    rows -= 1
                    end += 1
                pieces.append(Piece(task, task.taken, end))
                self._mark_taken(task, end)
                if end == len(task.texts):
                    lane.popleft()
                if alone:
                    return pieces
        return pieces

    def _lanes(self) -> Iterator[deque[EncoderTask]]:
        self._batches += 1
        if self._batches % PASSAGE_INTERVAL:
            yield from (self._queries, self._passages)
        else:
            yield from (self._passages, self._queries)

    def _remove_ended(self) -> None:
        now = time.monotonic()
        for lane in (self._queries, self._passages):
            ended = [task for task in lane if task.over or task.deadline < now]
            for task in ended:
                self._mark_taken(task, len(task.texts))
                task.fail(EncoderTimeout("the encoder had no time for it by its deadline"))
            if ended:
                remaining = [task for task in lane if task.taken < len(task.texts)]
                lane.clear()
                lane.extend(remaining)

    def _mark_taken(self, task: EncoderTask, end: int) -> None:
        left = task.texts[task.taken : end]
        self._texts -= len(left)
        self._characters -= sum(map(len, left))
        task.taken = end
