"""Background responses of a gateway: claimed, renewed, continued after a crash of any gateway."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import Self, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from services.api.responses import store
from services.api.responses.preparation import Prepared, prepare
from services.api.responses.run import Lost, Run
from services.api.responses.store import Claim, End, Progress
from services.api.serving.forward import Inference
from services.api.settings import ApiSettings
from services.contracts.errors import TemperError
from services.core.db.engine import Database
from services.core.db.tables import ResponseRow
from services.dialects.exchange import Event

logger = logging.getLogger(__name__)

LEASE_SECONDS = 15.0
"""A gateway that is silent for longer loses its responses to another."""
LOOK_SECONDS = LEASE_SECONDS / 3
FLUSH_SECONDS = 0.25

Result = TypeVar("Result")


class BackgroundRuns:
    """Plays background responses, at most ``settings.background_responses`` at a time. Use as an
    async context manager."""

    def __init__(self, database: Database, inference: Inference, settings: ApiSettings) -> None:
        self._database = database
        self._inference = inference
        self._settings = settings
        self._owner = secrets.token_hex(8)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changes: dict[str, asyncio.Event] = {}
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._attended: set[str] = set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        with suppress(SQLAlchemyError):
            await self._write(lambda session: store.release(session, self._owner))

    def wake(self) -> None:
        """Look for a new response at once."""
        self._woken.set()

    def stop(self, identity: str) -> None:
        """End the run of a response that was cancelled or deleted, if it is here."""
        task = self._tasks.get(identity)
        if task is not None:
            task.cancel()
        self._tell(identity)

    async def wait(self, identity: str, seconds: float) -> None:
        """Wait for a change of a response that runs here, or for some time."""
        change = self._changes.setdefault(identity, asyncio.Event())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await change.wait()
        finally:
            self._changes.pop(identity, None)

    def leased(self, row: ResponseRow) -> ResponseRow:
        """A response that this gateway is about to answer."""
        row.owner, row.lease_expires_at = self._owner, time.time() + LEASE_SECONDS
        return row

    @contextmanager
    def attended(self, identity: str) -> Iterator[None]:
        """Keep the lease of a response whose client waits for it."""
        self._attended.add(identity)
        try:
            yield
        finally:
            self._attended.discard(identity)

    async def _work(self) -> None:
        while True:
            try:
                await self._look()
            except SQLAlchemyError as error:
                logger.warning("the database does not answer: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._woken.wait()
            self._woken.clear()

    async def _look(self) -> None:
        if self._tasks or self._attended:
            held = await self._write(
                lambda session: store.renew(session, self._owner, LEASE_SECONDS)
            )
            for identity in self._tasks.keys() - held:
                self._tasks[identity].cancel()
        free = self._settings.background_responses - len(self._tasks)
        if free > 0 and await run_in_threadpool(self._is_any_free):
            claims = await self._write(
                lambda session: store.claim(session, self._owner, LEASE_SECONDS, free)
            )
            for claimed in claims:
                self._start(claimed)

    def _is_any_free(self) -> bool:
        with self._database.read() as session:
            return store.is_any_free(session)

    def _start(self, claimed: Claim) -> None:
        task = asyncio.create_task(self._play(claimed))
        self._tasks[claimed.id] = task

        def ended(_: asyncio.Task[None]) -> None:
            self._tasks.pop(claimed.id, None)
            self._tell(claimed.id)
            self.wake()

        task.add_done_callback(ended)

    async def _play(self, claimed: Claim) -> None:
        try:
            prepared = await run_in_threadpool(self._prepare, claimed)
            await self._write_events(claimed, prepared)
        except (Lost, asyncio.CancelledError):
            logger.info("the run of %s was ended", claimed.id)
        except SQLAlchemyError as error:  # the lease ends, and the response is continued
            logger.warning("the run of %s lost the database: %s", claimed.id, error)
        except TemperError as error:
            end = End("failed", store.server_error(error.message, error.code))
            await self._write(lambda session: store.finish(session, claimed, end))
        except Exception:
            logger.exception("response %s", claimed.id)
            end = End("failed", store.server_error("internal error"))
            await self._write(lambda session: store.finish(session, claimed, end))

    def _prepare(self, claimed: Claim) -> Prepared:
        with self._database.read() as session:
            return prepare(session, claimed.id, self._settings)

    async def _write_events(self, claimed: Claim, prepared: Prepared) -> None:
        async def keep(progress: Progress) -> bool:
            return await self._write(lambda session: store.save(session, claimed, progress))

        run: Run = prepared.run(self._inference, keep, patient=True)
        log = _EventLog(prepared.streamed, prepared.next_event)
        async with self._flushed(claimed, log) as flushing, aclosing(run.events()) as events:
            async for event in events:
                if run.end is not None:
                    await flushing.end()
                log.add(event)
        end, progress = run.end or End("completed"), run.progress
        lines, first = log.take()

        def finish(session: Session) -> None:
            # Together, so that no stream ends before its response.
            if lines:
                store.append_events(session, claimed, first, lines)
            store.finish(session, claimed, end, progress)

        await self._write(finish)
        self._tell(claimed.id)

    @asynccontextmanager
    async def _flushed(self, claimed: Claim, log: "_EventLog") -> AsyncIterator["_Flushing"]:
        """Store the events of a log as they come."""

        async def flush() -> None:
            lines, first = log.take()
            if lines:
                await self._write(
                    lambda session: store.append_events(session, claimed, first, lines)
                )
                self._tell(claimed.id)

        flushing = _Flushing(flush)
        try:
            yield flushing
        finally:
            await flushing.end()

    def _tell(self, identity: str) -> None:
        change = self._changes.pop(identity, None)
        if change is not None:
            change.set()

    async def _write(self, work: Callable[[Session], Result]) -> Result:
        def write() -> Result:
            with self._database.write() as session:
                return work(session)

        return await run_in_threadpool(write)


class _EventLog:
    """Events that are not stored yet; none of a response that is not streamed."""

    def __init__(self, is_kept: bool, first: int) -> None:
        self._is_kept = is_kept
        self._first = first
        self._lines: list[str] = []

    def add(self, event: Event) -> None:
        if self._is_kept:
            self._lines.append(json.dumps(event[1], separators=(",", ":")))

    def take(self) -> tuple[list[str], int]:
        """The lines, and the number of the first."""
        lines, first = self._lines, self._first
        self._lines, self._first = [], first + len(lines)
        return lines, first


class _Flushing:
    """Flushes every `FLUSH_SECONDS` until `end`, which waits for a flush that is under way: none
    may come after what its caller writes next."""

    def __init__(self, flush: Callable[[], Awaitable[None]]) -> None:
        self._flush = flush
        self._ending = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Stop; raises what a flush raised."""
        self._ending.set()
        await self._task

    async def _run(self) -> None:
        while not self._ending.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._ending.wait()
            await self._flush()
