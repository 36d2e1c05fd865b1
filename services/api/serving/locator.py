"""Finds the route to a model's engine, waits until it is ready, and caches it briefly."""

import asyncio
import time
from dataclasses import dataclass
from weakref import WeakValueDictionary

from starlette.concurrency import run_in_threadpool

from services.api.serving.servings import Route, Servings
from services.contracts.errors import Unavailable

ROUTE_SECONDS = 1.0
"""How long a route is cached; it is short because servings stop and models are deleted."""
POLL_SECONDS = 0.1
MIN_LOOKUP_SECONDS = 10.0
MAX_CACHED_ROUTES = 4096
RETRY_AFTER = 10.0


@dataclass
class _CachedRoute:
    route: Route
    expires_at: float


def not_ready(model: str, reason: str) -> Unavailable:
    """The error for a request whose engine did not start in time."""
    message = f"{model!r} is not ready: {reason}"
    return Unavailable(message, retry_after=RETRY_AFTER, code="model_not_ready")


class _Lookup:
    """The lookup of one model, shared by all requests that wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.reason = "its engine is being started"


class Locator:
    """Finds the routes of models."""

    def __init__(self, servings: Servings) -> None:
        self._servings = servings
        self._cache: dict[str, _CachedRoute] = {}
        self._lookups: WeakValueDictionary[str, _Lookup] = WeakValueDictionary()

    async def route_to(self, model: str, path: str, deadline: float) -> Route:
        """The route to a model that supports ``path``; its engine is started if necessary.

        ``deadline`` is on the event loop's clock; there is always time for one lookup. Raises what
        `Servings.find_or_start` does, and `Unavailable` when the engine is not ready by then.
        """
        known = self._cached(model)
        if known is not None:
            known.check(path)
            return known
        lookup = self._lookups.get(model)
        if lookup is None:
            self._lookups[model] = lookup = _Lookup()
        try:
            lookup_deadline = max(deadline, asyncio.get_running_loop().time() + MIN_LOOKUP_SECONDS)
            async with asyncio.timeout_at(lookup_deadline), lookup.lock:
                known = self._cached(model)
                if known is None:
                    return await self._find(model, path, lookup, deadline)
                known.check(path)
                return known
        except TimeoutError:
            raise not_ready(model, lookup.reason) from None

    def invalidate(self, route: Route) -> None:
        """Remove a dead route from the cache, so that the next request looks it up again."""
        cached = self._cache.get(route.model)
        if cached is not None and cached.route == route:
            del self._cache[route.model]

    async def _find(self, model: str, path: str, lookup: _Lookup, deadline: float) -> Route:
        while True:
            found = await run_in_threadpool(self._servings.find_or_start, model, path)
            if isinstance(found, Route):
                if len(self._cache) >= MAX_CACHED_ROUTES:
                    self._cache.clear()
                self._cache[model] = _CachedRoute(found, time.monotonic() + ROUTE_SECONDS)
                return found
            lookup.reason = found.reason
            if asyncio.get_running_loop().time() >= deadline:
                raise TimeoutError
            await asyncio.sleep(POLL_SECONDS)

    def _cached(self, model: str) -> Route | None:
        cached = self._cache.get(model)
        return cached.route if cached is not None and cached.expires_at > time.monotonic() else None
