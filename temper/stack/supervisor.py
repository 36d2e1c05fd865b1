"""One local stack, from the start of its services to the end of the last."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from temper.client import Temper
from temper.stack import logs
from temper.stack.child import Child, Died, Restarted
from temper.stack.ending import SHUTDOWN_MARGIN, end_leftovers, end_services
from temper.stack.errors import AlreadyRunning, NotReady, PortTaken, ServiceDied
from temper.stack.ports import is_free
from temper.stack.processes import identify
from temper.stack.readiness import not_ready
from temper.stack.services import (
    DISPENSABLE,
    PORT_OPTIONS,
    WORKERS,
    Address,
    Service,
    command,
    environment,
)
from temper.stack.state import (
    AbsentService,
    RunningService,
    StackFile,
    StackLock,
    StackState,
    StackStatus,
)

CHECK_SECONDS = 0.2
REFUSED = 2
"""Exit code of a service that cannot work as it is set up here; its last line says why."""


class Stack:
    """The services of one ``temper up``. Use in a ``with``: leaving it ends them all.

    Entering it takes the lock of the home folder, raising `AlreadyRunning` when another stack
    has it, and ends what a killed stack may have left; ``leftovers`` names that. Started are the
    workers and what has one of the ``addresses``, each with its ``variables`` in its environment.
    """

    def __init__(
        self,
        home: Path,
        addresses: Mapping[Service, Address],
        client: Temper,
        grace_seconds: float,
        variables: Mapping[Service, Mapping[str, str]],
    ) -> None:
        self.home = home
        self.addresses = addresses
        self.client = client
        self.grace_seconds = grace_seconds + SHUTDOWN_MARGIN
        self.variables = variables
        self.leftovers: list[str] = []
        self._lock = StackLock(home)
        self._file = StackFile(home)
        self._children: list[Child] = []
        self.state = StackState(
            status=StackStatus.STARTING,
            url=addresses[Service.API].url,
            supervisor=identify(os.getpid()),
            services=[],
            started_at=time.time(),
        )

    def __enter__(self) -> "Stack":
        if not self._lock.acquire():
            raise AlreadyRunning(already_running(self._file.read()))
        try:
            self.leftovers = end_leftovers(self._file, self.grace_seconds)
            for service, address in self.addresses.items():
                if not is_free(address.port):
                    option = PORT_OPTIONS[service]
                    raise PortTaken(f"port {address.port} is taken: choose another with {option}")
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
        for service, address in self.addresses.items():
            self._start(service, ["--host", address.host, "--port", str(address.port)])
        for worker in WORKERS:
            self._start(worker, [])

    def wait_ready(self, stop: threading.Event, timeout: float) -> bool:
        """Wait until everything that listens is ready and every worker has signed on.

        Return False when ``stop`` was set first. Raise `ServiceDied` when a service ends that
        jobs need, and `NotReady` after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while missing := not_ready(self.client, self.state.services):
            for child in tuple(self._children):
                try:
                    child.check_alive()
                except ServiceDied as death:
                    self._go_on_without(child, death)
            if time.monotonic() > deadline:
                raise NotReady(f"after {timeout:g} s still waiting for: {', '.join(missing)}")
            if stop.wait(CHECK_SECONDS):
                return False
        self._save(StackStatus.READY)
        return True

    def watch(
        self,
        stop: threading.Event,
        report: Callable[[Died | Restarted | AbsentService], None],
    ) -> None:
        """Keep the services alive until ``stop`` is set.

        Each death, each restart and each service that is given up is handed to ``report``. Raise
        `ServiceDied` when a service that jobs need dies too often.
        """
        while not stop.wait(CHECK_SECONDS):
            for child in tuple(self._children):
                event = self._kept_alive(child)
                if event is not None:
                    self._save(StackStatus.READY)
                    report(event)
                logs.bound(child.running.log)

    def _kept_alive(self, child: Child) -> Died | Restarted | AbsentService | None:
        try:
            return child.keep_alive()
        except ServiceDied as death:
            return self._go_on_without(child, death)

    def _go_on_without(self, child: Child, death: ServiceDied) -> AbsentService:
        """Give up a service that jobs do not need; raise its death when they do."""
        service = child.running
        if service.name not in DISPENSABLE:
            raise death
        self._children.remove(child)
        says_why = death.status == REFUSED and death.last_lines
        reason = death.last_lines[-1] if says_why else death.message
        absent = AbsentService(name=service.name, reason=reason, log=service.log)
        self.state.absent.append(absent)
        self._save(self.state.status)
        return absent

    def _start(self, service: Service, arguments: list[str]) -> None:
        log = self.home / "logs" / f"{service.value}.log"
        variables = {
            **environment(service, str(self.home)),
            **self.variables.get(service, {}),
        }
        self._children.append(Child(service, command(service, arguments), variables, log))
        self._save(StackStatus.STARTING)

    def _save(self, status: StackStatus) -> None:
        self.state.status = status
        self.state.services = [self._with_url(child.running) for child in self._children]
        self._file.write(self.state)

    def _with_url(self, service: RunningService) -> RunningService:
        address = self.addresses.get(service.name)
        return service.model_copy(update={"url": address.url if address else None})

    def _stop(self) -> None:
        self._save(StackStatus.STOPPING)
        end_services(self.state, self.grace_seconds)
        for child in self._children:
            child.wait(self.grace_seconds)  # reaps it
        self._file.remove()


def already_running(state: StackState | None) -> str:
    """Say that a stack is running, and where."""
    if state is None:
        return "another temper command is starting or ending the stack of this home folder"
    return (
        f"the stack is already {state.status.value} at {state.url} "
        f"(process {state.supervisor.pid}); temper down ends it"
    )
