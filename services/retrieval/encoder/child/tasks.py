"""One request on its way through the encoder's threads."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.protocol import Operation
from services.retrieval.encoder.specification import TextKind

Array = NDArray[np.float32]


class Task:
    """Texts to encode, or a query and passages to score, and where the result goes.

    ``finished`` is called once, from any thread: with the result, (texts, columns), or with None
    and an error. A task that was dropped is finished with neither.
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
        """Whether no more of it needs computing."""
        return self._over

    def put(self, begin: int, rows: Array) -> None:
        """Add the results of the texts from position ``begin`` on."""
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
        """End it with an error; does nothing when it is over."""
        if self._end():
            self._finished(None, error)

    def drop(self) -> None:
        """End it without an answer: nobody waits for it."""
        if self._end():
            self._finished(None, None)

    def _end(self) -> bool:
        with self._lock:
            ended, self._over = not self._over, True
        return ended


@dataclass(frozen=True)
class Piece:
    """Some texts of a task, to be computed in one batch with others."""

    task: Task
    begin: int
    end: int

    @property
    def texts(self) -> Sequence[str]:
        """The texts themselves."""
        return self.task.texts[self.begin : self.end]
