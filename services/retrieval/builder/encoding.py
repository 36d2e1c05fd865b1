"""Vectors for passages, from an encoder that runs for as long as they are made."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.client import BlockingEncoderClient
from services.retrieval.encoder.errors import EncoderTimeout, EncoderUnavailable
from services.retrieval.encoder.process import EncoderProcess
from services.retrieval.encoder.specification import (
    EncoderDescription,
    EncoderSpecification,
    TextKind,
)

START_SECONDS = 900.0
"""An encoder may have to fetch its model first."""

CALL_SECONDS = 1800.0
TRIES = 3

Vectors = NDArray[np.float32]
"""Normalised, one a passage: (passages, dimension)."""


class PassageEncoder(Protocol):
    """An encoder that is ready."""

    @property
    def description(self) -> EncoderDescription:
        """What it is."""

    def encode(self, passages: Sequence[str]) -> Vectors:
        """The vectors of passages."""


StartEncoder = Callable[[EncoderSpecification], AbstractContextManager[PassageEncoder]]
"""Runs an encoder for the length of a block. Raises `RuntimeMissing`, `EncoderUnusable` and
`EncoderUnavailable`."""


@contextmanager
def running_encoder(
    specification: EncoderSpecification, runtimes: Path, log: Path
) -> Iterator[PassageEncoder]:
    """An encoder in a process of its own, as a `StartEncoder` gives it."""
    with (
        EncoderProcess(specification, runtimes=runtimes, log=log) as process,
        BlockingEncoderClient(process.socket) as client,
    ):
        yield _Encoder(process, client, process.wait_ready(START_SECONDS))


@dataclass(frozen=True)
class _Encoder:
    """One process; not to be shared between threads."""

    process: EncoderProcess
    client: BlockingEncoderClient
    description: EncoderDescription

    def encode(self, passages: Sequence[str]) -> Vectors:
        """The vectors of passages.

        An encoder that died is waited for, since it is started again. Raises
        `EncoderUnavailable` or `EncoderTimeout` when that does not help.
        """
        for _ in range(TRIES - 1):
            try:
                return self._encode(passages)
            except (EncoderUnavailable, EncoderTimeout):
                self.process.wait_ready(START_SECONDS)
        return self._encode(passages)

    def _encode(self, passages: Sequence[str]) -> Vectors:
        deadline = time.monotonic() + CALL_SECONDS
        return self.client.encode(passages, TextKind.PASSAGE, deadline=deadline)
