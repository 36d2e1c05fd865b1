"""The encoder's compute threads."""

import logging
import threading
import time

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.child.queue import Piece, TaskQueue
from services.retrieval.encoder.errors import EncoderUnavailable
from services.retrieval.encoder.models.encoder import Encoder
from services.retrieval.encoder.protocol import Operation
from services.retrieval.encoder.specification import TextKind

logger = logging.getLogger(__name__)


class Workers:
    """Runs the encoder in as many threads as it works best with."""

    def __init__(self, encoder: Encoder, waiting: TaskQueue) -> None:
        self._encoder = encoder
        self._waiting = waiting
        self._since: dict[int, float] = {}
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(encoder.concurrency)
        ]
        for thread in self._threads:
            thread.start()

    def busy_seconds(self) -> float:
        """Age in seconds of the oldest batch being computed."""
        return max((time.monotonic() - since for since in list(self._since.values())), default=0.0)

    def _work(self, number: int) -> None:
        while pieces := self._waiting.take(scores_alone=self._encoder.reranks):
            self._since[number] = time.monotonic()
            try:
                self._compute(pieces)
            except Exception as error:  # fails these tasks, not the process
                logger.exception("a batch of %d requests failed", len(pieces))
                reason = f"the model failed: {type(error).__name__}: {error}"
                for piece in pieces:
                    piece.task.fail(EncoderUnavailable(reason))
            finally:
                del self._since[number]

    def _compute(self, pieces: list[Piece]) -> None:
        first = pieces[0]
        if self._encoder.reranks and first.task.operation is Operation.SCORE:
            first.task.put(first.begin, self._scores(first))
            return
        texts = [text for piece in pieces for text in self._prefixed(piece)]
        vectors = self._encoder.vectors(texts)
        begin = 0
        for piece in pieces:
            end = begin + piece.end - piece.begin
            piece.task.put(piece.begin, vectors[begin:end])
            begin = end

    def _prefixed(self, piece: Piece) -> list[str]:
        """Prefix a piece's texts; the first text of a scoring task is its query."""
        scored = piece.task.operation is Operation.SCORE
        split = piece.begin + 1 if scored and piece.begin == 0 else piece.begin
        texts = piece.task.texts
        return [
            *self._encoder.prefixed(texts[piece.begin : split], TextKind.QUERY),
            *self._encoder.prefixed(texts[split : piece.end], piece.task.kind),
        ]

    def _scores(self, piece: Piece) -> NDArray[np.float32]:
        """Scores as one column; the query's own row is padding."""
        query, passages = piece.task.texts[0], piece.task.texts[max(1, piece.begin) : piece.end]
        scores = self._encoder.score(query, passages) if passages else np.empty(0, np.float32)
        return np.pad(scores, (piece.end - piece.begin - len(passages), 0))[:, None]
