"""One local stack, from the start of its services to the end of the last."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from temper.client import Temper, Unreachable
from temper.stack import logs
from temper.stack.child import Child, Died, Restarted
from temper.stack.errors import AlreadyRunning, NotReady, PortTaken
from temper.stack.ports import is_free
from temper.stack.processes import KILL_SECONDS, ProcessIdentity, end_group, identify
from temper.stack.services import WORKERS, Address, Service, command, environment
from temper.stack.state import StackFile, StackLock, StackState, StackStatus

CHECK_SECONDS = 0.2
SHUTDOWN_MARGIN = 10.0
"""What a worker gets to end beyond the grace that it gives the processes of its jobs."""


class Stack:
    """The services of one ``temper up``. Use in a ``with``: leaving it ends them all.

    Entering it takes the lock of the home folder, raising `AlreadyRunning` when another stack
    has it, and ends what a killed stack may have left; ``leftovers`` names that. The gateway
    alone gets the ``gateway_variables`` into its environment.
    """

    def __init__(
        self,
        home: Path,
        address: Address,
        client: Temper,
        grace_seconds: float,
        gateway_variables: Mapping[str, str],
    ) -> None:
        self.home = home
        self.address = address
        self.client = client
        self.grace_seconds = grace_seconds + SHUTDOWN_MARGIN
        self.gateway_variables = gateway_variables
        self.leftovers: list[str] = []
        self._lock = StackLock(home)
        self._file = StackFile(home)
        self._children: list[Child] = []
        self.state = StackState(
            status=StackStatus.STARTING,
            url=address.url,
            supervisor=identify(os.getpid()),
            services=[],
            started_at=time.time(),
        )

    def __enter__(self) -> "Stack":
        if not self._lock.acquire():
            raise AlreadyRunning(already_running(self._file.read()))
        try:
            self.leftovers = end_leftovers(self._file, self.grace_seconds)
            if not is_free(self.address.port):
                raise PortTaken(f"port {self.address.port} is taken: choose another with --port")
            self._save(StackStatus.STARTING)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop()
        finally:
            self._lock.release()

    def start(self) -> None:
        """Start all services."""
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        host, port = self.address.host, str(self.address.port)
        self._start(Service.API, ["--host", host, "--port", port], self.gateway_variables)
        for worker in WORKERS:
            self._start(worker, [], {})

    def wait_ready(self, stop: threading.Event, timeout: float) -> bool:
        """Wait until the gateway is ready and every worker has signed on.

        Return False when ``stop`` was set first. Raise `ServiceDied` when a service ends, and
        `NotReady` after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while missing := self._missing():
            for child in self._children:
                child.check_alive()
            if time.monotonic() > deadline:
                raise NotReady(f"after {timeout:g} s still waiting for: {', '.join(missing)}")
            if stop.wait(CHECK_SECONDS):
                return False
        self._save(StackStatus.READY)
        return True

    def watch(self, stop: threading.Event, report: Callable[[Died | Restarted], None]) -> None:
        """Keep the services alive until ``stop`` is set.

        Each death and each restart is handed to ``report``. Raise `ServiceDied` when a service
        dies too often.
        """
        while not stop.wait(CHECK_SECONDS):
            for child in self._children:
                event = child.keep_alive()
                if isinstance(event, Restarted):
                    self._save(StackStatus.READY)
                if event is not None:
                    report(event)
                logs.bound(child.running.log)

    def _start(self, service: Service, arguments: list[str], variables: Mapping[str, str]) -> None:
        log = self.home / "logs" / f"{service.value}.log"
        variables = {**environment(str(self.home)), **variables}
        self._children.append(Child(service, command(service, arguments), variables, log))
        self._save(StackStatus.STARTING)

    def _missing(self) -> list[str]:
        try:
            if not self.client.is_ready():
                return [Service.API.value]
            signed_on = {worker.id for worker in self.client.workers()}
        except Unreachable:
            return [Service.API.value]
        return [
            service.name.value
            for service in self.state.services
            if service.name in WORKERS and not _is_signed_on(service.process, signed_on)
        ]

    def _save(self, status: StackStatus) -> None:
        self.state.status = status
        self.state.services = [child.running for child in self._children]
        self._file.write(self.state)

    def _stop(self) -> None:
        self._save(StackStatus.STOPPING)
        end_services(self.state, self.grace_seconds)
        for child in self._children:
            child.wait(self.grace_seconds)  # reaps it
        self._file.remove()


def longest_shutdown(grace_seconds: float) -> float:
    """Return the seconds within which a stack has ended, come what may."""
    return 2 * (grace_seconds + SHUTDOWN_MARGIN + KILL_SECONDS)


def end_services(state: StackState, grace_seconds: float) -> list[str]:
    """End what lives of a stack, workers first: they end the processes of their jobs.

    Return the names of the services that had to be ended.
    """
    alive = [service for service in state.services if service.process.is_alive]
    workers = [service.process for service in alive if service.name in WORKERS]
    others = [service.process for service in alive if service.name not in WORKERS]
    for group in (workers, others):
        if group:
            with ThreadPoolExecutor(len(group)) as threads:
                list(threads.map(lambda process: end_group(process, grace_seconds), group))
    return [service.name.value for service in alive]


def end_leftovers(file: StackFile, grace_seconds: float) -> list[str]:
    """End the services of a stack whose supervisor was killed; the caller holds the lock."""
    state = file.read()
    if state is None:
        return []
    ended = end_services(state, grace_seconds)
    file.remove()
    return ended


def already_running(state: StackState | None) -> str:
    """Say that a stack is running, and where."""
    if state is None:
        return "another temper command is starting or ending the stack of this home folder"
    return (
        f"the stack is already {state.status.value} at {state.url} "
        f"(process {state.supervisor.pid}); temper down ends it"
    )


def _is_signed_on(process: ProcessIdentity, worker_ids: set[str]) -> bool:
    # A worker's id is <host>:<pid>.
    return any(worker.rpartition(":")[2] == str(process.pid) for worker in worker_ids)
