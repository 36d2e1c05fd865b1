"""How long the policy's engine has sampled for rollouts."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class SamplingTime:
    """The time in which at least one server samples for a rollout: it has a request, and is neither
    paused nor asleep. What waits for a server does not count, nor what guests and probes ask."""

    def __init__(self) -> None:
        self._servers: list[ServerSampling] = []
        self._seconds = 0.0
        self._counted_until = 0.0

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        self.count()
        return self._seconds

    def add_server(self) -> "ServerSampling":
        """The requests of a further server."""
        self._servers.append(ServerSampling(self))
        return self._servers[-1]

    def count(self) -> None:
        """Count the time since the last call; before every change of a server."""
        now = asyncio.get_running_loop().time()
        if any(server.is_sampling for server in self._servers):
            self._seconds += now - self._counted_until
        self._counted_until = now


class ServerSampling:
    """The requests of rollouts that one server has, and whether it samples."""

    def __init__(self, whole: SamplingTime) -> None:
        self._whole = whole
        self._requests = 0
        self._pauses = 0
        self._awake = True

    @property
    def is_sampling(self) -> bool:
        """Whether it samples for a rollout now."""
        return bool(self._requests) and not self._pauses and self._awake

    @contextmanager
    def request(self) -> Iterator[None]:
        """The server has a rollout's request during the block."""
        self._whole.count()
        self._requests += 1
        try:
            yield
        finally:
            self._whole.count()
            self._requests -= 1

    @contextmanager
    def pause(self) -> Iterator[None]:
        """The server samples nothing during the block."""
        self._whole.count()
        self._pauses += 1
        try:
            yield
        finally:
            self._whole.count()
            self._pauses -= 1

    def set_awake(self, awake: bool) -> None:
        """The server is awake from now on, or asleep."""
        self._whole.count()
        self._awake = awake
