"""Whether the services of a stack do what they are there for."""

import http.client
from collections.abc import Sequence
from urllib.parse import urlsplit

from temper.client import Temper, Unreachable
from temper.stack.processes import ProcessIdentity
from temper.stack.services import WORKERS, Service
from temper.stack.state import RunningService

ANSWER_SECONDS = 10.0


def not_ready(client: Temper, services: Sequence[RunningService]) -> list[str]:
    """Names of the services that are not ready: the gateway alone, as long as it is not.

    ``client`` is one of the gateway, at which the workers sign on.
    """
    try:
        if not client.is_ready():
            return [Service.API.value]
        signed_on = {worker.id for worker in client.workers()}
    except Unreachable:
        return [Service.API.value]
    return [service.name.value for service in services if not _is_ready(service, signed_on)]


def _is_ready(service: RunningService, signed_on: set[str]) -> bool:
    if service.name in WORKERS:
        return _is_signed_on(service.process, signed_on)
    return service.url is not None and _answers_ready(service.url)


def _is_signed_on(process: ProcessIdentity, worker_ids: set[str]) -> bool:
    # A worker's id is <host>:<pid>.
    return any(worker.rpartition(":")[2] == str(process.pid) for worker in worker_ids)


def _answers_ready(url: str) -> bool:
    # Not httpx, whose clients are slow to make and would ask a proxy.
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
