"""One service of the stack as a process that can be started again."""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from temper.stack import logs
from temper.stack.errors import ServiceDied
from temper.stack.processes import KILL_SECONDS, ProcessIdentity, identify, signal_group
from temper.stack.restarts import MOST_RESTARTS, WITHIN_SECONDS, Restarts
from temper.stack.services import Service
from temper.stack.state import RunningService


@dataclass(frozen=True)
class Died:
    """A death after which the service is started again in ``restart_in`` seconds."""

    how: ServiceDied
    restart_in: float


@dataclass(frozen=True)
class Restarted:
    """A service that died and runs again."""

    service: RunningService


class Child:
    """A service's process, started at once. Its output is appended to ``log``."""

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
        """The service as started last, whether it still lives or not."""
        return RunningService(name=self._service, process=self._identity, log=self._log)

    def check_alive(self) -> None:
        """Raise `ServiceDied`, with the last lines of the log, when the process has ended."""
        if self._identity.is_alive:
            return
        if self._process.returncode is None:
            # Not reaped yet, so nobody else can have its number. What it started in its group
            # may hold its port, and must not work on beside its successor.
            signal_group(self._identity, signal.SIGKILL)
        status = self._process.wait(KILL_SECONDS)
        how = f"exit code {status}" if status >= 0 else f"signal {-status}"
        raise ServiceDied(
            f"{self._service.value} ended with {how}; its log is {self._log}",
            logs.last_lines(self._log),
            status=status,
        )

    def keep_alive(self) -> Died | Restarted | None:
        """Notice a death, or start the process again when its time has come; return which.

        Raise `ServiceDied` when it has died too often.
        """
        if self._restart_at is None:
            return self._noticed_death()
        if time.monotonic() < self._restart_at:
            return None
        self._restart_at = None
        self._start()
        return Restarted(self.running)

    def wait(self, seconds: float) -> None:
        """Reap the process, which is ending."""
        self._process.wait(seconds)

    def _noticed_death(self) -> Died | None:
        try:
            self.check_alive()
        except ServiceDied as death:
            now = time.monotonic()
            delay = self._restarts.after_death(now)
            if delay is None:
                often = f"after {MOST_RESTARTS} restarts within {WITHIN_SECONDS:g} s"
                raise ServiceDied(
                    f"{death.message}; {often}", death.last_lines, status=death.status
                ) from None
            self._restart_at = now + delay
            return Died(death, delay)
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
