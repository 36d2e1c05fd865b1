"""How an encoder's process is at present, for the threads that want to know."""

import threading
import time

from services.retrieval.encoder.errors import EncoderUnavailable, EncoderUnusable
from services.retrieval.encoder.specification import EncoderDescription


class EncoderState:
    """Written by the thread that keeps the process, read by any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.description: EncoderDescription | None = None
        self.problem: str | None = "the encoder has not been started"
        self.restarts = 0
        self.pid: int | None = None
        self._unusable = False

    def started(self, pid: int | None) -> None:
        """A process runs and loads its model."""
        with self._changed:
            self.pid = pid
            if not self._unusable:  # what is wrong with the model stays known until it is right
                self.problem = "the encoder is loading its model"

    def ready(self, description: EncoderDescription) -> None:
        """It answers."""
        with self._changed:
            self.description, self.problem, self._unusable = description, None, False
            self._changed.notify_all()

    def ended(self, problem: str, *, unusable: bool = False) -> None:
        """It runs no more; ``unusable`` says that the next one will do no better."""
        with self._changed:
            self.problem, self.pid, self._unusable = problem, None, unusable
            self._changed.notify_all()

    def starts_again(self) -> None:
        """Another process is about to be started in its place."""
        with self._changed:
            self.restarts += 1

    def wait_ready(self, timeout: float) -> EncoderDescription:
        """Wait until it answers; raises `EncoderUnusable` and `EncoderUnavailable`."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while self.problem is not None or self.description is None:
                if self._unusable:
                    raise EncoderUnusable(str(self.problem))
                left = deadline - time.monotonic()
                if left <= 0:
                    raise EncoderUnavailable(str(self.problem))
                self._changed.wait(left)
            return self.description
