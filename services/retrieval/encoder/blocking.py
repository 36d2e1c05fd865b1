"""Asking an encoder for vectors from a thread, for builds."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.client import EncoderClient
from services.retrieval.encoder.specification import EncoderDescription, TextKind


class BlockingEncoderClient:
    """One connection to an encoder, for one thread without an event loop of its own.

    Errors are those of `EncoderClient`. It holds an event loop, and so must be closed.
    """

    def __init__(self, socket: Path) -> None:
        """``socket`` is that of an `EncoderProcess`. Nothing is connected yet."""
        self._runner = asyncio.Runner()
        self._client = EncoderClient(socket)

    def describe(self, *, deadline: float) -> EncoderDescription:
        """What the encoder is, once it has loaded its model."""
        return self._runner.run(self._client.describe(deadline=deadline))

    def busy_seconds(self, *, deadline: float) -> float:
        """For how long the encoder has been computing its oldest batch; 0 when it is idle."""
        return self._runner.run(self._client.busy_seconds(deadline=deadline))

    def encode(
        self, texts: Sequence[str], kind: TextKind, *, deadline: float
    ) -> NDArray[np.float32]:
        """Normalised vectors of ``texts``: (texts, dimension), float32, in their order.

        Best with some thousand texts at once: they are sent in parts, several of which are on
        their way at a time.
        """
        return self._runner.run(self._client.encode(texts, kind, deadline=deadline))

    def score(self, query: str, passages: Sequence[str], *, deadline: float) -> NDArray[np.float32]:
        """How well each passage fits ``query``: (passages,), float32, more is better."""
        return self._runner.run(self._client.score(query, passages, deadline=deadline))

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._client.closed:
            return
        self._runner.run(self._client.close())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
