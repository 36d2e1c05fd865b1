"""A service of the stack as a restartable process."""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.stack import ServiceCondition, ServiceStatus
from temper.stack import logs
from temper.stack.errors import ServiceDied
from temper.stack.processes import KILL_SECONDS, ProcessIdentity, identify, signal_group
from temper.stack.services import Service
from temper.stack.state import RunningService

UNSUPPORTED = 2
"""Exit code of a service that cannot run on this machine; its last log line says why."""
FAILED_AFTER = 5
"""Restarts of a service before it counts as failed."""
STABLE_SECONDS = 300.0
"""A service that has run for so long has recovered from its former exits."""
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 600.0


@dataclass(frozen=True)
class Exited:
    """A service exited and will be started again in ``restart_in`` seconds."""

    service: RunningService
    cause: ServiceDied
    restart_in: float


@dataclass(frozen=True)
class Restarted:
    """A service that had exited runs again."""

    service: RunningService


@dataclass(frozen=True)
class Recovered:
    """A service has run for `STABLE_SECONDS` since its last exit."""

    service: RunningService


Event = Exited | Restarted | Recovered


class Restarts:
    """Restart policy of one service: delays double with each exit, up to a longest one.

    ``first_delay`` is in seconds. Exits are forgotten once the service has run for
    `STABLE_SECONDS`. It counts as failed after `FAILED_AFTER` restarts, or at once where it cannot
    run on this machine.
    """

    def __init__(self, first_delay: float = FIRST_DELAY_SECONDS) -> None:
        self._first_delay = first_delay
        self.exits = 0
        self.has_failed = False

    def after_exit(self, *, unsupported: bool = False) -> float:
        """Record an exit; return the delay in seconds before the next start."""
        self.exits += 1
        self.has_failed = self.has_failed or unsupported or self.exits > FAILED_AFTER
        if unsupported:
            return LONGEST_DELAY_SECONDS
        # The exponent is bounded: a float overflows after a thousand exits.
        return min(self._first_delay * 2.0 ** min(self.exits - 1, 30), LONGEST_DELAY_SECONDS)

    def recover(self) -> None:
        """Forget all exits."""
        self.exits = 0
        self.has_failed = False


class Child:
    """A service's process, started on construction. Its output is appended to ``log``.

    ``clock`` returns a monotonic time in seconds.
    """

    def __init__(
        self,
        service: Service,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        restarts: Restarts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._command = command
        self._environment = environment
        self._log = log
        self._restarts = restarts or Restarts()
        self._clock = clock
        self._restart_at: float | None = None
        self._condition = ServiceCondition()
        self._start()

    @property
    def running(self) -> RunningService:
        """The service as last started, alive or not."""
        return RunningService(
            name=self._service, process=self._identity, log=self._log, condition=self._condition
        )

    def check(self) -> Event | None:
        """Detect an exit, start the process again when its delay has passed; return which."""
        if self._restart_at is not None:
            return self._restart() if self._clock() >= self._restart_at else None
        death = self._death()
        if death is not None:
            return self._exited(death)
        if self._restarts.exits and self._clock() - self._started_at >= STABLE_SECONDS:
            self._restarts.recover()
            self._condition = ServiceCondition()
            return Recovered(self.running)
        return None

    def reap(self, seconds: float) -> bool:
        """Wait until the process has ended; return whether it has."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _death(self) -> ServiceDied | None:
        """Return how the process exited; None while it runs."""
        if self._identity.is_alive:
            return None
        name, lines = self._service.value, logs.last_lines(self._log)
        if not self._has_ended():
            return ServiceDied(f"{name}'s process {self._process.pid} cannot be killed", lines)
        status = self._process.returncode
        status_text = f"exit code {status}" if status >= 0 else f"signal {-status}"
        message = f"{name} exited with {status_text}; log: {self._log}"
        return ServiceDied(message, lines, status=status)

    def _has_ended(self) -> bool:
        """Kill what is left of the process's group; return whether the process has ended."""
        if self._process.returncode is None:
            # Not reaped, so its pid cannot have been reused. Processes left in its group may
            # hold its port and must not run beside its successor.
            signal_group(self._identity, signal.SIGKILL)
        return self.reap(KILL_SECONDS)

    def _exited(self, death: ServiceDied) -> Exited:
        unsupported = death.status == UNSUPPORTED and bool(death.last_lines)
        delay = self._restarts.after_exit(unsupported=unsupported)
        self._restart_at = self._clock() + delay
        failed = self._restarts.has_failed
        self._condition = ServiceCondition(
            status=ServiceStatus.FAILED if failed else ServiceStatus.RESTARTING,
            exits=self._restarts.exits,
            reason=death.last_lines[-1] if unsupported else death.message,
            last_lines=list(death.last_lines),
            retry_at=round(time.time() + delay),
        )
        return Exited(self.running, death, delay)

    def _restart(self) -> Event:
        death = self._death()
        if death is not None and death.status is None:
            return self._exited(death)
        try:
            self._start()
        except OSError as error:
            return self._exited(ServiceDied(f"{self._service.value} cannot be started: {error}"))
        self._restart_at = None
        failed = self._restarts.has_failed
        status = ServiceStatus.RECOVERING if failed else ServiceStatus.RUNNING
        self._condition = self._condition.model_copy(update={"status": status, "retry_at": None})
        return Restarted(self.running)

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
        self._started_at = self._clock()
