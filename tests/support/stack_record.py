"""The record that the supervisor of a local stack keeps of its services."""

from collections.abc import Mapping
from pathlib import Path

from services.contracts.stack import ServiceCondition
from temper.stack.processes import identify
from temper.stack.services import Service
from temper.stack.state import RunningService, StackFile, StackState, StackStatus


def record_stack(home: Path, pid: int, conditions: Mapping[Service, ServiceCondition]) -> None:
    """Write the record of a stack whose supervisor is a process that runs."""
    own = identify(pid)
    services = [
        RunningService(name=name, process=own, log=home / name, condition=condition)
        for name, condition in conditions.items()
    ]
    state = StackState(
        status=StackStatus.READY, url="", supervisor=own, services=services, started_at=0
    )
    StackFile(home).write(state)
