"""State of the local stack on disk, so that any command can find and stop it."""

import fcntl
import os
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ValidationError

from services.contracts.stack import STACK_FILE, ServiceCondition, ServiceStatus
from temper.stack.processes import ProcessIdentity
from temper.stack.services import Service


class StackStatus(StrEnum):
    """Life cycle of a stack."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


class RunningService(BaseModel):
    """A service of the stack, as last started; its process leads its own group."""

    name: Service
    process: ProcessIdentity
    log: Path
    url: str | None = None
    """The URL on which it listens, if any."""
    condition: ServiceCondition = ServiceCondition()


class StackState(BaseModel):
    """A local stack. ``supervisor`` is the ``temper up`` process that owns the services."""

    status: StackStatus
    url: str
    supervisor: ProcessIdentity
    services: list[RunningService]
    started_at: float

    @property
    def disturbed(self) -> list[RunningService]:
        """The services that do not run, or recently kept exiting."""
        normal = ServiceStatus.RUNNING
        return [each for each in self.services if each.condition.status is not normal]


class StackFile:
    """``stack.json`` in the home folder, written by the holder of the `StackLock`."""

    def __init__(self, home: Path) -> None:
        self.path = home / STACK_FILE

    def read(self) -> StackState | None:
        """Return the last written state, or None if missing or unreadable."""
        try:
            return StackState.model_validate_json(self.path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def running(self) -> StackState | None:
        """Return the state if the supervisor is alive."""
        state = self.read()
        return state if state is not None and state.supervisor.is_alive else None

    def write(self, state: StackState) -> None:
        """Replace the state atomically."""
        partial = self.path.with_suffix(".partial")
        partial.write_text(state.model_dump_json(indent=2) + "\n")
        partial.replace(self.path)

    def remove(self) -> None:
        """Record that there is no stack."""
        self.path.unlink(missing_ok=True)


class StackLock:
    """The lock for starting a stack in a home folder; released when its process exits."""

    def __init__(self, home: Path) -> None:
        self.path = home / "stack.lock"
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; return whether it was taken."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
