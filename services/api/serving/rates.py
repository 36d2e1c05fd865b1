"""How many requests and tokens a minute a key may use, as token buckets."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from services.contracts.errors import RateLimited

MINUTE = 60.0
SHORTEST_WAIT = 1e-6
"""Rounding, not a wait."""


@dataclass
class _Bucket:
    """Fills evenly to a minute's worth; may be overdrawn, since answers end after they began."""

    name: str
    limit: int
    level: float
    looked_at: float

    def fill(self) -> None:
        """Add what has flowed in since the last look."""
        now = time.monotonic()
        gained = (now - self.looked_at) * self.limit / MINUTE
        self.level, self.looked_at = min(self.limit, self.level + gained), now

    def seconds_to(self, level: float) -> float:
        """Seconds until it holds so much."""
        return max(0.0, level - self.level) * MINUTE / self.limit


class RateLimits:
    """The limits of each key in this gateway process; None: no limit."""

    def __init__(self, requests: int | None, tokens: int | None) -> None:
        limits = {"requests": requests, "tokens": tokens}
        self._limits = {name: limit for name, limit in limits.items() if limit is not None}
        self._buckets: dict[str, list[_Bucket]] = {}  # as many as there are keys

    def admit(self, principal: str) -> None:
        """Count a request; raises `RateLimited` if the key has used up a limit."""
        for bucket in self._filled(principal):
            wait = bucket.seconds_to(1)
            if wait > SHORTEST_WAIT:
                raise RateLimited(
                    f"the limit of {bucket.limit:,} {bucket.name} a minute is reached",
                    retry_after=wait,
                    headers=self.headers(principal),
                )
        for bucket in self._filled(principal):
            if bucket.name == "requests":
                bucket.level -= 1

    def spend(self, principal: str, tokens: int) -> None:
        """Count the tokens of an answer."""
        for bucket in self._filled(principal):
            if bucket.name == "tokens":
                bucket.level -= tokens

    def headers(self, principal: str) -> Mapping[str, str]:
        """OpenAI's rate-limit headers: limit, remaining, and time until reset."""
        found = {}
        for bucket in self._filled(principal):
            found[f"x-ratelimit-limit-{bucket.name}"] = str(bucket.limit)
            found[f"x-ratelimit-remaining-{bucket.name}"] = str(max(0, int(bucket.level)))
            seconds = bucket.seconds_to(bucket.limit)
            found[f"x-ratelimit-reset-{bucket.name}"] = f"{seconds:.3f}s"
        return found

    def _filled(self, principal: str) -> list[_Bucket]:
        if principal not in self._buckets:
            self._buckets[principal] = [
                _Bucket(name, limit, limit, time.monotonic())
                for name, limit in self._limits.items()
            ]
        buckets = self._buckets[principal]
        for bucket in buckets:
            bucket.fill()
        return buckets
