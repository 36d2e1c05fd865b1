"""The learner process.

    python -m services.trainer.rl.learner JOB_DIR

in the training runtime, or through ``torch.distributed.run`` with several devices. It connects to
the coordinator, loads the models named in ``learner.json``, and serves requests until `Finish`, a
closed connection, or a failure, which it reports.
"""

import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Self

from services.trainer.errors import explain
from services.trainer.ranks import end_process
from services.trainer.rl.learner.protocol import (
    ANSWER,
    REQUEST,
    SPEC,
    Answer,
    Failed,
    Finish,
    LearnerSpec,
    Ready,
    Request,
)

_PACKAGE = "services.trainer.rl.learner"


def main() -> int:
    spec = LearnerSpec.model_validate_json((Path(sys.argv[1]) / SPEC).read_bytes())
    _prepare_environment()
    # Imported late: it takes seconds, and the libraries read the environment when imported.
    processes = import_module(f"{_PACKAGE}.parallel").ProcessGroup(spec.settings.optimizer)
    with Coordinator(
        spec.socket, is_main=processes.is_main, share=processes.broadcast
    ) as coordinator:
        phase = "loading_model"
        try:
            learner = import_module(f"{_PACKAGE}.learner").Learner(spec, processes)
            parameters = learner.trainable_parameters
            coordinator.send(Ready(trainable_parameters=parameters, padded=learner.padded))
            phase = "training"
            for request in coordinator.requests():
                coordinator.send(learner.answer(request))
                if isinstance(request, Finish):
                    break
        except Exception as error:
            traceback.print_exc()
            failure = explain(error, phase)
            coordinator.send(
                Failed(code=failure.code, message=failure.message, param=failure.param)
            )
            return 1
        return 0


def _prepare_environment() -> None:
    """Keep the libraries offline (the spec names local folders) and progress bars out of the
    log."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


Share = Callable[[Callable[[], bytes]], bytes]

CONNECT_SECONDS = 30.0
HEARTBEAT_SECONDS = 60.0
"""Seconds between heartbeats to the other processes while there is no request."""


class Coordinator:
    """The main process's connection to the coordinator; the other processes receive through it."""

    def __init__(self, path: Path, *, is_main: bool, share: Share) -> None:
        """Connect, in the main process; ``share`` broadcasts what it reads to all processes."""
        self._leads = is_main
        self._share = share
        self._received = b""
        self._socket = socket.socket(socket.AF_UNIX)
        if is_main:
            self._socket.settimeout(CONNECT_SECONDS)
            self._socket.connect(str(path))
            self._socket.settimeout(HEARTBEAT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def requests(self) -> Iterator[Request]:
        """The coordinator's requests, until it closes the connection."""
        while (line := self._share(self._line)) != b"":
            if line != b"\n":
                yield REQUEST.validate_json(line)

    def send(self, answer: Answer) -> None:
        """Send an answer, from the main process."""
        if self._leads:
            self._socket.sendall(ANSWER.dump_json(answer) + b"\n")

    def _line(self) -> bytes:
        """The next line; a blank one for a heartbeat, b"" once the connection is closed."""
        while b"\n" not in self._received:
            try:
                received = self._socket.recv(1 << 20)
            except TimeoutError:
                return b"\n"
            if not received:
                return b""
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line


if __name__ == "__main__":
    end_process(main())
