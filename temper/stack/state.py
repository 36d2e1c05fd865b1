"""What is known on disk of the local stack, so that any command can find and end it."""

import fcntl
import os
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ValidationError

from temper.stack.processes import ProcessIdentity
from temper.stack.services import Service


class StackStatus(StrEnum):
    """Where a stack stands."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


class RunningService(BaseModel):
    """A service of the stack, the leader of its own process group."""

    name: Service
    process: ProcessIdentity
    log: Path
    url: str | None = None
    """Where it listens, if it does."""


class AbsentService(BaseModel):
    """A service that the stack goes on without, and why."""

    name: Service
    reason: str
    log: Path


class StackState(BaseModel):
    """A local stack. ``supervisor`` is the ``temper up`` that ends the services with itself."""

    status: StackStatus
    url: str
    supervisor: ProcessIdentity
    services: list[RunningService]
    absent: list[AbsentService] = []
    started_at: float


class StackFile:
    """``stack.json`` in the home folder, written by whoever holds the `StackLock`."""

    def __init__(self, home: Path) -> None:
        self.path = home / "stack.json"

    def read(self) -> StackState | None:
        """Return what was written last, or None where there is nothing readable."""
        try:
            return StackState.model_validate_json(self.path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def running(self) -> StackState | None:
        """Return the state of the stack if its supervisor lives."""
        state = self.read()
        return state if state is not None and state.supervisor.is_alive else None

    def write(self, state: StackState) -> None:
        """Replace the state in one step."""
        partial = self.path.with_suffix(".partial")
        partial.write_text(state.model_dump_json(indent=2) + "\n")
        partial.replace(self.path)

    def remove(self) -> None:
        """Say that there is no stack."""
        self.path.unlink(missing_ok=True)


class StackLock:
    """The right to start a stack in a home folder; the system frees it with its process."""

    def __init__(self, home: Path) -> None:
        self.path = home / "stack.lock"
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if nobody holds it; return whether it was taken."""
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
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
