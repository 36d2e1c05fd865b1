"""A response whose client waits for it, streamed or whole."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from typing import TypeVar

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from services.api.context import GatewayContext
from services.api.responses import store
from services.api.responses.preparation import Prepared
from services.api.responses.run import Lost, Run
from services.api.responses.store import Claim, End, Progress
from services.contracts.base import JsonObject
from services.contracts.errors import Conflict
from services.core.db.tables import ResponseRow
from services.dialects.exchange import Event

DELETED = "the response was deleted while it was answered"

Result = TypeVar("Result")


class Answering:
    """Plays a response for its client, once it has begun. With ``row`` the response is stored, and
    ends with the client's connection; its last event follows once it is stored."""

    def __init__(
        self, gateway: GatewayContext, prepared: Prepared, row: ResponseRow | None
    ) -> None:
        self._gateway = gateway
        self._prepared = prepared
        self._row = row
        self._claim = Claim(prepared.head["id"], 0)

    async def begin(self) -> None:
        """Store the response; raises `Unavailable`."""
        if self._row is not None:
            row = self._gateway.responses.leased(self._row)
            await self._write(lambda session: store.create(session, row))

    async def whole(self) -> JsonObject:
        """The response; raises the `TemperError` to respond with."""
        run = self._run()
        try:
            async with aclosing(self._played(run)) as events:
                async for _ in events:
                    pass
        except Lost:
            raise Conflict(DELETED) from None
        if run.error is not None:
            raise run.error
        return run.body()

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of the response."""
        try:
            async with aclosing(self._played(self._run())) as events:
                async for event in events:
                    yield event
        except Lost:
            yield "error", {"type": "error", "code": Conflict.code, "message": DELETED}

    def _run(self) -> Run:
        return self._prepared.run(self._gateway.inference, self._keep, patient=False)

    async def _played(self, run: Run) -> AsyncGenerator[Event, None]:
        async with AsyncExitStack() as stack:
            if self._row is not None:
                stack.enter_context(self._gateway.responses.attended(self._row.id))
            is_stored = False
            try:
                async with aclosing(run.events()) as events:
                    async for event in events:
                        if run.end is not None and not is_stored:
                            is_stored = True
                            await self._finish(run.end, run.progress)
                        yield event
            finally:
                if not is_stored:  # the client is gone
                    with suppress(Exception):
                        await self._finish(End("cancelled"), run.progress)

    async def _keep(self, progress: Progress) -> bool:
        if self._row is None:
            return True
        return await self._write(lambda session: store.save(session, self._claim, progress))

    async def _finish(self, end: End, progress: Progress) -> None:
        if self._row is not None:
            await self._write(lambda session: store.finish(session, self._claim, end, progress))

    async def _write(self, work: Callable[[Session], Result]) -> Result:
        def write() -> Result:
            with self._gateway.database.write() as session:
                return work(session)

        return await run_in_threadpool(write)
