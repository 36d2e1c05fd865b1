"""Gateway requests to the engines of a training."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from services.contracts.errors import InvalidRequest, Unavailable
from services.inference.relay import Destination, Relay, published
from services.inference.relay_protocol import ServedAdapter
from services.trainer.rl.policy_server.engine import PolicyEngine
from services.trainer.rl.spec import GuestSpec

MAX_GUESTS = 8
"""Maximum concurrent guest requests, so that they hardly slow the rollouts."""


class PolicyGuests:
    """The current policy of a training, behind a relay."""

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine
        self._count = 0

    @asynccontextmanager
    async def using(self, adapter: ServedAdapter | None) -> AsyncIterator[Destination]:
        """See `RelayedEngine`; raises `Unavailable` during a weight sync or at the guest limit."""
        if adapter is not None:
            raise InvalidRequest("a policy serves no adapters", param="model")
        if self._count >= MAX_GUESTS:
            message = f"{self._count} requests to the policy of this training are in progress"
            raise Unavailable(message, code="too_many_requests")
        self._count += 1
        try:
            async with self._engine.guest() as destination:
                yield destination
        finally:
            self._count -= 1


@asynccontextmanager
async def open_to_guests(
    engine: PolicyEngine, spec: GuestSpec | None, job_dir: Path
) -> AsyncIterator[None]:
    """Serve the policy to gateways during the block, if the training allows it."""
    if spec is None:
        yield
        return
    async with Relay(PolicyGuests(engine), spec.host) as relay:
        with published(relay, spec.epoch, job_dir):
            yield
