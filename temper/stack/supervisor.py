"""The supervisor of a local stack: starts, checks, restarts and stops its services."""

import http.client
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from services.contracts.stack import ServiceStatus
from temper.client import Temper, Unreachable
from temper.stack import logs
from temper.stack.addresses import is_free
from temper.stack.child import Child, Event, Exited
from temper.stack.errors import AlreadyRunning, NotReady, PortTaken, StillRunning
from temper.stack.processes import KILL_SECONDS, ProcessIdentity, end_group, identify
from temper.stack.services import (
    PORT_OPTIONS,
    WORKERS,
    Address,
    Service,
    command,
    environment,
)
from temper.stack.state import (
    RunningService,
    StackFile,
    StackLock,
    StackState,
    StackStatus,
)

READY_SECONDS = 0.2
"""Interval of checks while the stack starts."""
WATCH_SECONDS = 1.0
"""Interval of checks while the stack runs."""
ANSWER_SECONDS = 10.0
SHUTDOWN_MARGIN = 15.0
"""Seconds that a worker gets beyond the grace periods of its jobs' processes."""

Report = Callable[[Event], None]


class Stack:
    """The services of one ``temper up``. Use in a ``with``: leaving it stops them all.

    Entering takes the home folder's lock, or raises `AlreadyRunning`, and stops what a killed
    stack left (``leftovers``). Leaving raises `StillRunning` if a process cannot be killed. A
    service that exits is started again, however often; the others run on. Services are the
    workers and those in ``addresses``; ``variables`` are added to their environments.
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
        self.grace_seconds = grace_seconds
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
                    raise PortTaken(f"port {address.port} is in use: choose another with {option}")
            self._save(StackStatus.STARTING)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            remaining = self._stop()
        finally:
            self._lock.release()
        if remaining and kind is None:
            raise StillRunning(remaining)

    def start(self) -> None:
        """Start all services."""
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        for service, address in self.addresses.items():
            self._start(service, ["--host", address.host, "--port", str(address.port)])
        for worker in WORKERS:
            self._start(worker, [])

    def wait_ready(self, stop: threading.Event, timeout: float, report: Report) -> bool:
        """Wait until every service is ready and every worker has registered.

        A service that exits meanwhile is started again, but not waited for; that goes to
        ``report``. Return False if ``stop`` is set first. Raises `ServiceDied` if the gateway
        exits, and `NotReady` after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while missing := not_ready(self.client, self._awaited()):
            for event in self._events():
                if isinstance(event, Exited) and event.service.name is Service.API:
                    raise event.cause
                report(event)
            if time.monotonic() > deadline:
                raise NotReady(f"after {timeout:g} s still waiting for: {', '.join(missing)}")
            if stop.wait(READY_SECONDS):
                return False
        self._save(StackStatus.READY)
        return True

    def watch(self, stop: threading.Event, report: Report) -> None:
        """Start services that exit again until ``stop`` is set; events go to ``report``."""
        while not stop.wait(WATCH_SECONDS):
            for event in self._events():
                report(event)
            with suppress(OSError):  # on a full disk the logs grow on, and the services run on
                for child in self._children:
                    logs.bound(child.running.log)

    def _awaited(self) -> list[RunningService]:
        return [each for each in self.state.services if each.condition.exits == 0]

    def _events(self) -> Iterator[Event]:
        """Check all services once; yield what is new to the user."""
        for child in self._children:
            before = child.running.condition
            event = child.check()
            if event is None:
                continue
            with suppress(OSError):  # a full disk does not end the stack
                self._save(self.state.status)
            after = event.service.condition
            hopeless = (ServiceStatus.FAILED, ServiceStatus.RECOVERING)
            if {before.status, after.status} <= set(hopeless) and before.reason == after.reason:
                continue  # another try that changed nothing
            yield event

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

    def _stop(self) -> list[str]:
        """Stop all services; return those that cannot be killed, which stay in the file."""
        with suppress(OSError):  # a full disk
            self._save(StackStatus.STOPPING)
        end_services(self.state, self.grace_seconds)
        remaining = [child.running for child in self._children if not child.reap(KILL_SECONDS)]
        if not remaining:
            self._file.remove()
        return [_described(service) for service in remaining]


def already_running(state: StackState | None) -> str:
    """Message for `AlreadyRunning`."""
    if state is None:
        return "another temper command is starting or stopping the stack in this home folder"
    return (
        f"the stack is already {state.status.value} at {state.url} "
        f"(process {state.supervisor.pid}); temper down stops it"
    )


def not_ready(client: Temper, services: Sequence[RunningService]) -> list[str]:
    """Return the names of services that are not ready; only the gateway until it is ready.

    ``client`` talks to the gateway, where workers register.
    """
    try:
        if not client.is_ready():
            return [Service.API.value]
        registered = {worker.id for worker in client.workers()}
    except Unreachable:
        return [Service.API.value]
    return [service.name.value for service in services if not _is_ready(service, registered)]


def _is_ready(service: RunningService, registered: set[str]) -> bool:
    if service.name in WORKERS:
        return _is_registered(service.process, registered)
    return service.url is not None and _answers_ready(service.url)


def _is_registered(process: ProcessIdentity, worker_ids: set[str]) -> bool:
    # A worker's id is <host>:<pid>.
    return any(worker.rpartition(":")[2] == str(process.pid) for worker in worker_ids)


def _answers_ready(url: str) -> bool:
    # Not httpx: its clients are slow to create and would use a proxy.
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def longest_shutdown(grace_seconds: float) -> float:
    """Return an upper bound, in seconds, on the time to stop a stack."""
    return 2 * (_longest_stop(grace_seconds) + KILL_SECONDS)


def _longest_stop(grace_seconds: float) -> float:
    """Return how long a worker may take to stop: the processes of its jobs have the grace period to
    save, then to end."""
    return 2 * grace_seconds + SHUTDOWN_MARGIN


def _described(service: RunningService) -> str:
    return f"{service.name.value} (process {service.process.pid})"


def end_services(state: StackState, grace_seconds: float) -> list[str]:
    """Stop a stack's services, workers first, because they stop their jobs' processes.

    Return the names of the services that were still running.
    """
    seconds = _longest_stop(grace_seconds)
    alive = [service for service in state.services if service.process.is_alive]
    workers = [service.process for service in alive if service.name in WORKERS]
    others = [service.process for service in alive if service.name not in WORKERS]
    for group in (workers, others):
        if group:
            with ThreadPoolExecutor(len(group)) as threads:
                list(threads.map(lambda process: end_group(process, seconds), group))
    return [service.name.value for service in alive]


def end_leftovers(file: StackFile, grace_seconds: float) -> list[str]:
    """Stop the services of a stack whose supervisor was killed; the caller holds the lock.

    Return their names. Raises `StillRunning` if one of them cannot be killed.
    """
    state = file.read()
    if state is None:
        return []
    ended = end_services(state, grace_seconds)
    remaining = [_described(each) for each in state.services if each.process.is_alive]
    if remaining:
        raise StillRunning(remaining)
    file.remove()
    return ended
