"""A session: a notebook with an owner and an expiry time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from services.contracts.errors import Conflict
from services.contracts.sandbox.sessions import Session, SessionStatus
from services.sandbox.sessions.notebook import Notebook, NotebookEnded


class OpenSession:
    """A notebook with its owner and limits.

    It ends after ``idle_timeout`` seconds without a request, and after ``lifetime`` seconds in any
    case.
    """

    def __init__(
        self,
        session_id: str,
        owner: str,
        notebook: Notebook,
        *,
        idle_timeout: float,
        lifetime: float,
        memory_bytes: int,
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.notebook = notebook
        self.idle_timeout = idle_timeout
        self.memory_bytes = memory_bytes
        self._created = self._last_used = time.monotonic()
        self._last_moment = self._created + lifetime
        self._requests = 0
        self._executing = False

    @property
    def has_ended(self) -> bool:
        """Whether its processes are gone."""
        return self.notebook.ended_at is not None

    @property
    def expires_at(self) -> float:
        """When it ends if unused, or is removed if it has ended; by `time.monotonic`."""
        if self.notebook.ended_at is not None:
            return self.notebook.ended_at + self.idle_timeout
        idle_since = time.monotonic() if self._requests else self._last_used
        return min(idle_since + self.idle_timeout, self._last_moment)

    async def end(self) -> None:
        """End it because it has expired."""
        is_old = self.expires_at >= self._last_moment  # which limit, not the time
        reason = "it reached its maximum lifetime" if is_old else "it was idle for too long"
        await self.notebook.end(reason)

    @contextmanager
    def used(self) -> Iterator[Notebook]:
        """Use its notebook; raises `Conflict` if it has ended or ends meanwhile."""
        self._requests += 1
        try:
            if self.has_ended:
                raise NotebookEnded
            yield self.notebook
        except NotebookEnded:
            reason = self.notebook.end_reason
            raise Conflict(f"the session has ended: {reason}", code="session_ended") from None
        finally:
            self._requests -= 1
            self._last_used = time.monotonic()

    @contextmanager
    def executing(self) -> Iterator[Notebook]:
        """Use its notebook to run a cell; raises `Conflict` if another one is running."""
        if self._executing:
            raise Conflict("another cell of the session is running", code="session_busy")
        self._executing = True
        try:
            with self.used() as notebook:
                yield notebook
        finally:
            self._executing = False

    def view(self) -> Session:
        """The wire form of the session."""
        status = SessionStatus.BUSY if self._executing else SessionStatus.IDLE
        return Session(
            id=self.id,
            status=SessionStatus.ENDED if self.has_ended else status,
            created_at=_date(self._created),
            last_used_at=_date(self._last_used),
            expires_at=_date(self.expires_at),
            idle_timeout=self.idle_timeout,
            memory_limit_mb=self.memory_bytes >> 20,
            restarts=self.notebook.restarts,
            end_reason=self.notebook.end_reason if self.has_ended else None,
        )


def _date(moment: float) -> int:
    """Convert a time of `time.monotonic` to seconds since 1970."""
    return round(time.time() - time.monotonic() + moment)
