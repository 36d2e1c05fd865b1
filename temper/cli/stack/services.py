"""What a command says about services of the local stack that do not run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from temper.cli.output import Output
from temper.cli.units import duration

if TYPE_CHECKING:
    from services.contracts.stack import StackService

LINES = 3
"""Lines of the log that are shown of each service."""


def local_services() -> list[StackService]:
    """Return the services of this home folder's stack, as its supervisor recorded them."""
    from services.contracts.stack import StackService
    from temper.settings import load_settings
    from temper.stack.state import StackFile

    state = StackFile(load_settings().home).running()
    if state is None:
        return []
    return [
        StackService(id=service.name.value, **vars(service.condition)) for service in state.services
    ]


def note_disturbed(out: Output, services: Sequence[StackService]) -> None:
    """Print the state of each service that does not run normally, with the end of its log."""
    from services.contracts.stack import ServiceStatus

    for service in services:
        if service.status is ServiceStatus.RUNNING:
            continue
        out.note(_described(service), "red")
        for line in service.last_lines[-LINES:]:
            out.note(f"  {line}")


def _described(service: StackService) -> str:
    text = f"{service.id} {service.status.value} (exits: {service.exits}): {service.reason}"
    if service.retry_at is None:
        return text
    return f"{text}; next try in {duration(service.retry_at - time.time())}"
