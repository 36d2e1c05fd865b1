"""Passage vectors from an encoder process that runs for the duration of a block."""

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
"""Includes a possible download of the model."""

CALL_SECONDS = 1800.0
TRIES = 3

Vectors = NDArray[np.float32]
"""Unit length, one row per passage: (passages, dimension)."""


class PassageEncoder(Protocol):
    """An encoder that has loaded its model."""

    @property
    def description(self) -> EncoderDescription:
        """Its model, dimension and fingerprint."""

    def encode(self, passages: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> Vectors:
        """Encode passages: (passages, dimension)."""


StartEncoder = Callable[[EncoderSpecification], AbstractContextManager[PassageEncoder]]
"""Runs an encoder for the duration of a block. Raises `RuntimeMissing`, `EncoderUnusable` and
`EncoderUnavailable`."""


@contextmanager
def running_encoder(
    specification: EncoderSpecification, runtimes: Path, log: Path
) -> Iterator[PassageEncoder]:
    """Run an encoder process, as a `StartEncoder`."""
    with (
        EncoderProcess(specification, runtimes=runtimes, log=log) as process,
        BlockingEncoderClient(process.socket) as client,
    ):
        yield _Encoder(process, client, process.wait_ready(START_SECONDS))


@dataclass(frozen=True)
class _Encoder:
    """An encoder process with its client; not thread-safe."""

    process: EncoderProcess
    client: BlockingEncoderClient
    description: EncoderDescription

    def encode(self, passages: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> Vectors:
        """Encode passages: (passages, dimension).

        Waits for a crashed encoder to be restarted. Raises `EncoderUnavailable` or `EncoderTimeout`
        when that does not help.
        """
        for _ in range(TRIES - 1):
            try:
                return self._encode(passages, kind)
            except (EncoderUnavailable, EncoderTimeout):
                self.process.wait_ready(START_SECONDS)
        return self._encode(passages, kind)

    def _encode(self, passages: Sequence[str], kind: TextKind) -> Vectors:
        deadline = time.monotonic() + CALL_SECONDS
        return self.client.encode(passages, kind, deadline=deadline)
