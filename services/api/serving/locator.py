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
LOOK_SECONDS = 0.1
ONE_LOOK_SECONDS = 10.0
MAX_REMEMBERED = 4096
RETRY_AFTER = 10.0


@dataclass
class _Remembered:
    route: Route
    until: float


def not_ready(model: str, reason: str) -> Unavailable:
    """The error for a request whose engine did not start in time."""
    message = f"{model!r} is not ready: {reason}"
    return Unavailable(message, retry_after=RETRY_AFTER, code="model_not_ready")


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

    async def route_to(self, model: str, path: str, deadline: float) -> Route:
        """The route to a model that does what ``path`` asks; its engine is started if need be.

        ``deadline`` is on the event loop's clock; there is always time for one look. Raises what
        `Servings.look` does, and `Unavailable` when the engine is not ready by then.
        """
        known = self._remembered(model)
        if known is not None:
            known.check(path)
            return known
        lookup = self._lookups.get(model)
        if lookup is None:
            self._lookups[model] = lookup = _Lookup()
        try:
            look_by = max(deadline, asyncio.get_running_loop().time() + ONE_LOOK_SECONDS)
            async with asyncio.timeout_at(look_by), lookup.lock:
                known = self._remembered(model)
                if known is None:
                    return await self._found(model, path, lookup, deadline)
                known.check(path)
                return known
        except TimeoutError:
            raise not_ready(model, lookup.reason) from None

    def forget(self, route: Route) -> None:
        """Forget a dead route, so that the next request looks it up again."""
        known = self._known.get(route.model)
        if known is not None and known.route == route:
            del self._known[route.model]

    async def _found(self, model: str, path: str, lookup: _Lookup, deadline: float) -> Route:
        while True:
            found = await run_in_threadpool(self._servings.look, model, path)
            if isinstance(found, Route):
                if len(self._known) >= MAX_REMEMBERED:
                    self._known.clear()
                self._known[model] = _Remembered(found, time.monotonic() + REMEMBER_SECONDS)
                return found
            lookup.reason = found.reason
            if asyncio.get_running_loop().time() >= deadline:
                raise TimeoutError
            await asyncio.sleep(LOOK_SECONDS)

    def _remembered(self, model: str) -> Route | None:
        known = self._known.get(model)
        return known.route if known is not None and known.until > time.monotonic() else None
