"""How a worker that was told to stop gives its jobs time to save."""

import threading
import time


class Shutdown(threading.Event):
    """Set once the worker is to stop. Trainings then save, all within the same time: it begins for
    all of them when this is set, and ends at once with a second signal."""

    def __init__(self) -> None:
        super().__init__()
        self._since = 0.0
        self._at_once = False

    def set(self) -> None:
        """Begin the shutdown; repeated calls change nothing."""
        if not self.is_set():
            self._since = time.monotonic()
            super().set()

    def on_signal(self) -> None:
        """Begin the shutdown, or with a second signal end the time to save."""
        self._at_once = self.is_set()
        self.set()

    def is_over(self, seconds: float) -> bool:
        """Whether children had ``seconds`` to save since the shutdown began, or may not save."""
        return self._at_once or (self.is_set() and time.monotonic() - self._since >= seconds)
