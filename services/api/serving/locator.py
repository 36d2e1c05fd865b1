"""Waiting for a model's engine, and remembering for a moment where it is."""

import asyncio
import time
from dataclasses import dataclass
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool

from services.api.serving.servings import Route, Servings
from services.contracts.errors import Unavailable

REMEMBER_SECONDS = 1.0
"""How long a route is used without another look: servings end, and models are deleted."""
LOOK_SECONDS = 0.25
MAX_REMEMBERED = 4096
RETRY_AFTER = 10.0


@dataclass
class _Remembered:
    route: Route
    until: float


class _Lookup:
    """One look at a time per model, however many requests wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.reason = "its engine is being started"


class Locator:
    """Finds the routes of models."""

    def __init__(self, servings: Servings) -> None:
        self._servings = servings
        self._known: dict[str, _Remembered] = {}
        self._lookups: WeakValueDictionary[str, _Lookup] = WeakValueDictionary()

    async def route_to(self, model: str, deadline: float) -> Route:
        """The route to a model, whose engine is started if need be.

        ``deadline`` is on the event loop's clock. Raises what `Servings.look` does, and
        `Unavailable` when the engine is not ready by then.
        """
        known = self._remembered(model)
        if known is not None:
            return known
        lookup = self._lookups.get(model)
        if lookup is None:
            self._lookups[model] = lookup = _Lookup()
        try:
            async with asyncio.timeout_at(deadline), lookup.lock:
                return self._remembered(model) or await self._found(model, lookup)
        except TimeoutError:
            message = f"{model!r} is not ready: {lookup.reason}"
            raise Unavailable(message, retry_after=RETRY_AFTER, code="model_not_ready") from None

    def forget(self, route: Route) -> None:
        """Look again before the next request: the route leads nowhere."""
        known = self._known.get(route.model)
        if known is not None and known.route == route:
            del self._known[route.model]

    async def _found(self, model: str, lookup: _Lookup) -> Route:
        while True:
            found = await run_in_threadpool(self._servings.look, model)
            if isinstance(found, Route):
                if len(self._known) >= MAX_REMEMBERED:
                    self._known.clear()
                self._known[model] = _Remembered(found, time.monotonic() + REMEMBER_SECONDS)
                return found
            lookup.reason = found.reason
            await asyncio.sleep(LOOK_SECONDS)

    def _remembered(self, model: str) -> Route | None:
        known = self._known.get(model)
        return known.route if known is not None and known.until > time.monotonic() else None
