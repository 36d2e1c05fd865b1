"""The engine of a serving, as its relay sees it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.evaluator.serve.activity import Activity
from services.evaluator.serve.adapters import Adapters, AdapterTooLarge
from services.inference.relay import Destination, NotAdmitted
from services.inference.relay_protocol import Refusal, ServedAdapter


class ServedEngine:
    """Counts requests as activity and loads their adapters; refuses them once it leaves."""

    def __init__(self, server: Destination, adapters: Adapters, activity: Activity) -> None:
        self._server = server
        self._adapters = adapters
        self._activity = activity

    @asynccontextmanager
    async def using(self, adapter: ServedAdapter | None) -> AsyncIterator[Destination]:
        """See `RelayedEngine`; an adapter that needs more room than there is makes it leave."""
        if self._activity.reason is not None:
            raise NotAdmitted(Refusal.LEAVING)
        with self._activity.request():
            try:
                async with self._adapters.using(adapter):
                    yield self._server
            except AdapterTooLarge:
                self._activity.leave("an adapter needs more room than it has", outgrown=True)
                raise NotAdmitted(Refusal.LEAVING) from None
