"""All sessions of the service: ownership, limits, and expiry."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from services.contracts.errors import NotFound, Unavailable, Unprocessable
from services.contracts.sandbox.sessions import CellResult, CreateSession, ExecuteCell, Session
from services.core.ids import new_id
from services.sandbox.admission import Admission
from services.sandbox.metrics import SessionMetrics
from services.sandbox.sessions.cells import run_cell
from services.sandbox.sessions.notebook import NotEnoughMemory
from services.sandbox.sessions.notebooks import Notebooks
from services.sandbox.sessions.outputs import CellListener, CellOutputs
from services.sandbox.sessions.session import OpenSession
from services.sandbox.wire import CLIENT_SLACK_SECONDS, check_seconds, decode_files, memory_bytes

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.5


class Sessions:
    """The open sessions, and for a while the expired ones."""

    def __init__(self, notebooks: Notebooks, admission: Admission, metrics: SessionMetrics) -> None:
        self._notebooks = notebooks
        self._settings = notebooks.settings
        self._admission = admission
        self._metrics = metrics
        self._sessions: dict[str, OpenSession] = {}
        self._opening = 0
        self._opened = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Close sessions when they expire, and all of them on exit."""
        expiring = asyncio.create_task(self._expire_periodically())
        try:
            yield
        finally:
            expiring.cancel()
            with suppress(asyncio.CancelledError):
                await expiring
            ends = (
                session.notebook.end("the service is shutting down")
                for session in self._sessions.values()
            )
            await asyncio.gather(*ends, return_exceptions=True)  # each logs its own failure

    async def create(self, owner: str, request: CreateSession) -> Session:
        """Open a session; raises `Unprocessable`, `Unavailable` and `SandboxFailure`."""
        settings = self._settings
        memory = memory_bytes(request.memory_limit_mb, "memory_limit_mb", settings)
        idle = request.idle_timeout or settings.sandbox_session_idle_seconds
        files = decode_files(request.files, "files")
        self._make_room()
        self._opening += 1
        try:
            notebook = await self._notebooks.open(files, memory)
        except NotEnoughMemory as error:
            raise Unprocessable(
                f"memory_limit_mb: {error.message}", param="memory_limit_mb"
            ) from error
        finally:
            self._opening -= 1
        session = OpenSession(
            new_id("session"),
            owner,
            notebook,
            idle_timeout=min(idle, settings.sandbox_session_idle_seconds),
            lifetime=settings.sandbox_session_max_seconds,
            memory_bytes=memory,
        )
        self._sessions[session.id] = session
        self._opened.set()
        self._count()
        return session.view()

    def get(self, owner: str, session_id: str) -> OpenSession:
        """The owner's session with this id; raises `NotFound`."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise NotFound(
                f"no such session: {session_id[:80]!r}",
                param="session_id",
                code="session_not_found",
            )
        return session

    def of(self, owner: str) -> list[OpenSession]:
        """The owner's sessions, newest first."""
        return [each for each in reversed(self._sessions.values()) if each.owner == owner]

    async def execute(
        self,
        owner: str,
        session_id: str,
        cell: ExecuteCell,
        listener: CellListener | None = None,
        on_start: Callable[[], None] = lambda: None,
    ) -> CellResult:
        """Run a cell once a slot is free, calling ``on_start`` then.

        Raises `NotFound`, `Conflict`, `Unprocessable` and `QueueFull`. Cancelling this stops the
        cell.
        """
        session = self.get(owner, session_id)
        check_seconds(cell.timeout, "timeout", self._settings)
        queue_timeout = min(CLIENT_SLACK_SECONDS, self._settings.sandbox_queue_seconds)
        with session.executing() as notebook:
            async with self._admission.permit(queue_timeout, session.memory_bytes):
                on_start()
                outputs = CellOutputs(self._notebooks.budget(), listener)
                result = await run_cell(notebook, cell.code, cell.timeout, outputs)
        self._metrics.ran(result.status)
        return result

    async def delete(self, owner: str, session_id: str) -> None:
        """Close a session and remove it; raises `NotFound`."""
        session = self.get(owner, session_id)
        await session.notebook.end("it was deleted")
        self._forget(session)

    def _make_room(self) -> None:
        """Evict an expired session if the limit is reached; raises `Unavailable`."""
        if len(self._sessions) + self._opening < self._settings.sandbox_max_sessions:
            return
        ended = next((each for each in self._sessions.values() if each.has_ended), None)
        if ended is None:
            raise Unavailable(
                f"{len(self._sessions)} sessions are open, the maximum "
                "(TEMPER_SANDBOX_MAX_SESSIONS)",
                code="too_many_sessions",
            )
        self._forget(ended)

    async def _expire_periodically(self) -> None:
        while True:
            if not self._sessions:
                self._opened.clear()
            await self._opened.wait()
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self._end_expired()
            except Exception:
                logger.exception("ending expired sessions")  # the next round tries again

    async def _end_expired(self) -> None:
        now = time.monotonic()
        expired = [each for each in self._sessions.values() if each.expires_at <= now]
        for session in expired:
            if session.has_ended:
                self._forget(session)
        await asyncio.gather(*(each.end() for each in expired if not each.has_ended))
        self._count()

    def _forget(self, session: OpenSession) -> None:
        self._sessions.pop(session.id, None)
        self._count()

    def _count(self) -> None:
        open_ones = sum(1 for session in self._sessions.values() if not session.has_ended)
        self._metrics.open.set(open_ones)
