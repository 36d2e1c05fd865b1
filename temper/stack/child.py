"""A service of the stack as a restartable process."""

import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from temper.stack import logs
from temper.stack.errors import ServiceDied
from temper.stack.processes import KILL_SECONDS, ProcessIdentity, identify, signal_group
from temper.stack.services import Service
from temper.stack.state import RunningService

MOST_RESTARTS = 5
WITHIN_SECONDS = 300.0
FIRST_DELAY_SECONDS = 1.0


@dataclass(frozen=True)
class Crashed:
    """A service crashed and will be restarted in ``restart_in`` seconds."""

    cause: ServiceDied
    restart_in: float


@dataclass(frozen=True)
class Restarted:
    """A crashed service runs again."""

    service: RunningService


class Restarts:
    """Restart policy of one service: at most `MOST_RESTARTS` within `WITHIN_SECONDS`.

    The delay starts at ``first_delay`` seconds and doubles with each recent restart.
    """

    def __init__(self, first_delay: float = FIRST_DELAY_SECONDS) -> None:
        self._first_delay = first_delay
        self._crashes: deque[float] = deque()

    def after_crash(self, now: float) -> float | None:
        """Record a crash; return the delay before the restart, or None after too many.

        ``now`` is a monotonic time in seconds.
        """
        while self._crashes and self._crashes[0] <= now - WITHIN_SECONDS:
            self._crashes.popleft()
        if len(self._crashes) >= MOST_RESTARTS:
            return None
        delay: float = self._first_delay * 2 ** len(self._crashes)
        self._crashes.append(now)
        return delay


class Child:
    """A service's process, started on construction. Its output is appended to ``log``."""

    def __init__(
        self,
        service: Service,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        restarts: Restarts | None = None,
    ) -> None:
        self._service = service
        self._command = command
        self._environment = environment
        self._log = log
        self._restarts = restarts or Restarts()
        self._restart_at: float | None = None
        self._start()

    @property
    def running(self) -> RunningService:
        """The service as last started, alive or not."""
        return RunningService(name=self._service, process=self._identity, log=self._log)

    def check_alive(self) -> None:
        """Raise `ServiceDied`, with the last lines of the log, if the process has exited."""
        if self._identity.is_alive:
            return
        if self._process.returncode is None:
            # Not reaped, so its pid cannot have been reused. Processes left in its group may
            # hold its port and must not run beside its successor.
            signal_group(self._identity, signal.SIGKILL)
        status = self._process.wait(KILL_SECONDS)
        status_text = f"exit code {status}" if status >= 0 else f"signal {-status}"
        raise ServiceDied(
            f"{self._service.value} exited with {status_text}; log: {self._log}",
            logs.last_lines(self._log),
            status=status,
        )

    def keep_alive(self) -> Crashed | Restarted | None:
        """Detect a crash, or restart the process when its delay has passed; return which.

        Raises `ServiceDied` after too many crashes.
        """
        if self._restart_at is None:
            return self._detect_crash()
        if time.monotonic() < self._restart_at:
            return None
        self._restart_at = None
        self._start()
        return Restarted(self.running)

    def wait(self, seconds: float) -> None:
        """Reap the exiting process."""
        self._process.wait(seconds)

    def _detect_crash(self) -> Crashed | None:
        try:
            self.check_alive()
        except ServiceDied as death:
            now = time.monotonic()
            delay = self._restarts.after_crash(now)
            if delay is None:
                limit = f"after {MOST_RESTARTS} restarts within {WITHIN_SECONDS:g} s"
                raise ServiceDied(
                    f"{death.message}; {limit}", death.last_lines, status=death.status
                ) from None
            self._restart_at = now + delay
            return Crashed(death, delay)
        return None

    def _start(self) -> None:
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        self._identity: ProcessIdentity = identify(self._process.pid)
