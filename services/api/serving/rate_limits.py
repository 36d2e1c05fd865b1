"""Limits of requests and tokens per minute of each key, as token buckets."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from services.contracts.errors import RateLimited

MINUTE = 60.0
ROUNDING_SECONDS = 1e-6
"""Shorter waits are rounding errors."""


@dataclass
class _Bucket:
    """Refills evenly up to a minute's worth; overdrawn when a response exceeds the rest."""

    name: str
    limit: int
    level: float
    filled_at: float

    def fill(self) -> None:
        """Refill for the time since the last call."""
        now = time.monotonic()
        gained = (now - self.filled_at) * self.limit / MINUTE
        self.level, self.filled_at = min(self.limit, self.level + gained), now

    def seconds_until(self, level: float) -> float:
        """Seconds until the bucket reaches ``level``."""
        return max(0.0, level - self.level) * MINUTE / self.limit


class RateLimits:
    """The limits of each key in this gateway process; None: no limit."""

    def __init__(self, requests: int | None, tokens: int | None) -> None:
        limits = {"requests": requests, "tokens": tokens}
        self._limits = {name: limit for name, limit in limits.items() if limit is not None}
        self._buckets: dict[str, list[_Bucket]] = {}  # bounded by the number of keys

    def admit(self, principal: str) -> None:
        """Count a request; raises `RateLimited` if the key has exhausted a limit."""
        for bucket in self._refilled(principal):
            wait = bucket.seconds_until(1)
            if wait > ROUNDING_SECONDS:
                raise RateLimited(
                    f"the limit of {bucket.limit:,} {bucket.name} a minute is reached",
                    retry_after=wait,
                    headers=self.headers(principal),
                )
        for bucket in self._refilled(principal):
            if bucket.name == "requests":
                bucket.level -= 1

    def spend(self, principal: str, tokens: int) -> None:
        """Count the tokens of a response."""
        for bucket in self._refilled(principal):
            if bucket.name == "tokens":
                bucket.level -= tokens

    def headers(self, principal: str) -> Mapping[str, str]:
        """OpenAI's rate-limit headers: limit, remaining, and time until reset."""
        headers = {}
        for bucket in self._refilled(principal):
            headers[f"x-ratelimit-limit-{bucket.name}"] = str(bucket.limit)
            headers[f"x-ratelimit-remaining-{bucket.name}"] = str(max(0, int(bucket.level)))
            seconds = bucket.seconds_until(bucket.limit)
            headers[f"x-ratelimit-reset-{bucket.name}"] = f"{seconds:.3f}s"
        return headers

    def _refilled(self, principal: str) -> list[_Bucket]:
        if principal not in self._buckets:
            self._buckets[principal] = [
                _Bucket(name, limit, limit, time.monotonic())
                for name, limit in self._limits.items()
            ]
        buckets = self._buckets[principal]
        for bucket in buckets:
            bucket.fill()
        return buckets
