"""/v1/services: the services of the local stack that this gateway belongs to."""

import os
from pathlib import Path

from fastapi import APIRouter
from pydantic import ValidationError

from services.api.context import Gateway
from services.contracts.base import Page, Resource
from services.contracts.errors import AuthenticationFailed
from services.contracts.stack import STACK_FILE, ServiceCondition, ServiceStatus, StackService
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import page_of

router = APIRouter(
    prefix="/v1/services", tags=["jobs"], responses=documented_errors(AuthenticationFailed)
)


class _Supervisor(Resource):
    pid: int


class _Service(Resource):
    name: str
    condition: ServiceCondition


class _Record(Resource):
    supervisor: _Supervisor
    services: list[_Service]


def services_of_stack(home: Path, parent: int | None = None) -> list[StackService]:
    """Return the services of the stack whose supervisor started this process; none without one.

    ``parent`` is the process id of the supervisor, by default of this process's parent.
    """
    try:
        record = _Record.model_validate_json((home / STACK_FILE).read_bytes())
    except (OSError, ValidationError):
        return []
    if record.supervisor.pid != (os.getppid() if parent is None else parent):
        return []  # left by a killed stack, or of another gateway with the same home
    return [StackService(id=service.name, **vars(service.condition)) for service in record.services]


def degraded(home: Path, parent: int | None = None) -> dict[str, str]:
    """Return the status and number of exits of each service that does not run normally."""
    return {
        service.id: f"{service.status.value} (exits: {service.exits})"
        for service in services_of_stack(home, parent)
        if service.status is not ServiceStatus.RUNNING
    }


@router.get("", summary="List the services of the local stack")
def services(gateway: Gateway, _principal: Principal) -> Page[StackService]:
    """List the services that `temper up` runs with this gateway, and why any of them exited.

    Empty for a gateway that was started otherwise.
    """
    return page_of(services_of_stack(gateway.settings.home), has_more=False)
