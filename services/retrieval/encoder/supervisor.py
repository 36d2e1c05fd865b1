"""Supervises an encoder process: starts it, watches it, restarts it with backoff."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from services.contracts.errors import TemperError
from services.core.process.runtimes import child_environment
from services.core.process.server import ServerProcess
from services.core.process.supervised import StartFailed
from services.retrieval.encoder.client import BlockingEncoderClient
from services.retrieval.encoder.errors import EncoderTimeout, EncoderUnavailable, EncoderUnusable
from services.retrieval.encoder.specification import EncoderDescription


class EncoderState:
    """The state of an encoder process: written by its supervisor, read by any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.description: EncoderDescription | None = None
        self.problem: str | None = "the encoder has not been started"
        self.restarts = 0
        self.pid: int | None = None
        self._unusable = False

    def started(self, pid: int | None) -> None:
        """A process is running and loading its model."""
        with self._changed:
            self.pid = pid
            if not self._unusable:  # an unusable model stays reported until one loads
                self.problem = "the encoder is loading its model"

    def ready(self, description: EncoderDescription) -> None:
        """The encoder is ready."""
        with self._changed:
            self.description, self.problem, self._unusable = description, None, False
            self._changed.notify_all()

    def ended(self, problem: str, *, unusable: bool = False) -> None:
        """The process ended; ``unusable`` means that a restart will not help."""
        with self._changed:
            self.problem, self.pid, self._unusable = problem, None, unusable
            self._changed.notify_all()

    def restarting(self) -> None:
        """A restart begins."""
        with self._changed:
            self.restarts += 1

    def wait_ready(self, timeout: float) -> EncoderDescription:
        """Wait until ready; raises `EncoderUnusable` and `EncoderUnavailable`."""
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


logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
PROBE_SECONDS = 1.0
CHECK_SECONDS = 5.0
SILENT_SECONDS = 30.0
"""Health probes are answered even while computing; an encoder silent for this long is restarted."""

HANG_SECONDS = 300.0
"""An encoder busy with a single batch for this long is restarted; large ones take seconds."""

GRACE_SECONDS = 2.0
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 30.0
MAX_LOG_BYTES = 16 << 20

ENVIRONMENT = {
    # Each encoder thread computes its own batch on one core.
    **{"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    # oneDNN and ideep cache a primitive per batch shape (ideep: per thread too), and almost every
    # batch has a new one. At their defaults of 1024 the caches grow by gigabytes in a build.
    **{"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16", "LRU_CACHE_CAPACITY": "16"},
}


class EncoderSupervisor(threading.Thread):
    """Keeps ``command``, which listens on ``socket``, running, and ``state`` up to date."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        socket: Path,
        log: Path,
        start_seconds: float,
        state: EncoderState,
    ) -> None:
        super().__init__(name="encoder", daemon=True)
        self._command = command
        self._socket = socket
        self._log = log
        self._start_seconds = start_seconds
        self._state = state
        self._ending = threading.Event()

    def end(self) -> None:
        """Stop the process and the thread; returns when both have ended."""
        self._ending.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Run and restart the process, with exponential backoff while it fails to get ready."""
        pause = FIRST_PAUSE
        while not self._ending.is_set():
            try:
                was_ready = self._run_once()
            except EncoderUnusable as error:
                self._state.ended(error.message, unusable=True)
                was_ready, pause = False, LONGEST_PAUSE
            except (TemperError, OSError) as error:
                self._state.ended(f"the encoder could not be started: {error}")
                was_ready = False
            pause = FIRST_PAUSE if was_ready else min(2 * pause, LONGEST_PAUSE)
            if not self._ending.wait(pause):
                logger.warning("%s; restarting it", self._state.problem)
                self._state.restarting()
        self._state.ended("the encoder was ended")

    def _run_once(self) -> bool:
        """Run one process until it ends or must be stopped; returns whether it was ever ready."""
        process = self._start()
        self._state.started(process.pid)
        client = BlockingEncoderClient(self._socket)
        try:
            if not self._wait_ready(process, client):
                return False
            self._watch(process, client)
        finally:
            client.close()
            process.stop()  # the socket must be free for the next process
        return True

    def _start(self) -> ServerProcess:
        folder = self._socket.parent
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise StartFailed(f"{folder} belongs to another user")
        self._bound_log()
        return ServerProcess(
            self._command,
            cwd=folder,
            environment=child_environment(ENVIRONMENT),
            log=self._log,
            grace_seconds=GRACE_SECONDS,
        )

    def _wait_ready(self, process: ServerProcess, client: BlockingEncoderClient) -> bool:
        """Wait until its model is loaded; raises `EncoderUnusable`."""
        deadline = time.monotonic() + self._start_seconds
        while self._lives(process):
            with suppress(EncoderTimeout, EncoderUnavailable):
                probed = time.monotonic() + PROBE_SECONDS
                self._state.ready(client.describe(deadline=probed))
                return True
            if time.monotonic() > deadline:
                self._state.ended(f"the encoder was not ready within {self._start_seconds:.0f} s")
                return False
        return False

    def _watch(self, process: ServerProcess, client: BlockingEncoderClient) -> None:
        checked = heard = time.monotonic()
        while self._lives(process):
            now = time.monotonic()
            if now - checked < CHECK_SECONDS:
                continue
            checked = now
            self._bound_log()
            busy = 0.0
            with suppress(EncoderTimeout, EncoderUnavailable):
                busy = client.busy_seconds(deadline=now + PROBE_SECONDS)
                heard = now
            if now - heard > SILENT_SECONDS or busy > HANG_SECONDS:
                self._state.ended(f"the encoder hangs, for {max(now - heard, busy):.0f} s")
                return

    def _lives(self, process: ServerProcess) -> bool:
        """Sleep briefly; False when the process has ended or must."""
        if self._ending.wait(POLL_SECONDS):
            return False
        if (code := process.returncode()) is not None:
            self._state.ended(f"the encoder ended with code {code}; its log is {self._log}")
            return False
        return True

    def _bound_log(self) -> None:
        with suppress(FileNotFoundError):
            if self._log.stat().st_size > MAX_LOG_BYTES:
                os.truncate(self._log, 0)
