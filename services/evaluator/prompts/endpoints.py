"""The endpoints of a prompt batch: least-loaded routing, with failover."""

import asyncio
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from services.contracts.base import JsonObject
from services.contracts.batches.prompt_batches import PromptEndpoint
from services.contracts.errors import JobFailed
from services.evaluator.failures import RequestFailure
from services.inference.chat_answers import ChatAnswer, read_chat
from services.inference.clients.adaptive_limit import AdaptiveLimit, Waiters
from services.inference.clients.chat import LARGEST_ANSWER
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, ServiceFailed, model_retries

ATTEMPTS = 6
"""Failed attempts after which a request is given up; one that timed out counts twice."""
STREAK = 10
"""Failures in a row after which an endpoint rests while others work."""
REST_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, the endpoint that sent it, and the number of attempts."""

    answer: ChatAnswer
    endpoint: PromptEndpoint
    attempts: int


class Unanswered(Exception):
    """No endpoint responded; ``endpoint`` is the last one tried."""

    def __init__(self, error: ServiceFailed, endpoint: PromptEndpoint, attempts: int) -> None:
        super().__init__(error.message)
        self.error = error
        self.endpoint = endpoint
        self.attempts = attempts

    @property
    def failure(self) -> RequestFailure:
        """The state that decides whether further requests are pointless."""
        return RequestFailure(self.error.status, self.error.message)


class _Lane:
    """One endpoint and its known state."""

    def __init__(
        self, endpoint: PromptEndpoint, service: JsonService, limit: AdaptiveLimit
    ) -> None:
        self.endpoint = endpoint
        self.service = service
        self.limit = limit
        self._rests_until = float("-inf")
        self._streak = 0

    @property
    def is_resting(self) -> bool:
        """Whether the endpoint's latest attempts all failed; others are preferred."""
        return time.monotonic() < self._rests_until

    async def send(self, body: JsonObject) -> ChatAnswer:
        """Send one request once; raises ServiceFailed."""
        begun = self.limit.begin()
        try:
            asked = {"model": self.endpoint.model, **body}
            answer = await self.service.post(asked, read_chat, "/chat/completions")
        except ServiceFailed as error:
            self._failed(error, begun)
            raise
        finally:
            self.limit.end()
        self._streak = 0
        self.limit.succeeded()
        return answer.value

    def _failed(self, error: ServiceFailed, begun: float) -> None:
        if error.is_congestion or error.kind is FailureKind.TIMED_OUT:
            self.limit.congested(begun, error.retry_after)
        failure = RequestFailure(error.status, error.message)
        self._streak = 0 if failure.is_of_the_sample else self._streak + 1
        is_away = error.kind is FailureKind.UNSENT or failure.is_refusal
        if is_away or self._streak >= STREAK:
            self._rests_until = time.monotonic() + REST_SECONDS


class EndpointPool:
    """Asks endpoints with at most ``concurrency`` requests in flight at each.

    Failures that may be transient are retried, at another endpoint if there is one. Requests that
    were refused for lack of capacity or not sent at all wait for up to ``patience_seconds``. Use
    it as an async context manager.
    """

    def __init__(
        self,
        endpoints: Sequence[PromptEndpoint],
        api_key: Callable[[PromptEndpoint], str | None],
        *,
        concurrency: int,
        timeout_seconds: float,
        patience_seconds: float,
    ) -> None:
        self._patience = patience_seconds
        self._retries = model_retries(attempts=1, deadline_seconds=timeout_seconds)
        self._waiters = Waiters()
        self._lanes = [
            _Lane(
                endpoint,
                JsonService(
                    endpoint.base_url.rstrip("/"),
                    api_key(endpoint),
                    timeout=timeout_seconds,
                    retries=self._retries,
                    connections=concurrency,
                    largest_answer=LARGEST_ANSWER,
                ),
                AdaptiveLimit(concurrency, waiters=self._waiters),
            )
            for endpoint in endpoints
        ]

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for lane in self._lanes:
                await stack.enter_async_context(lane.service)
            self._stack = stack.pop_all()
        self._last_contact = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def in_flight(self) -> int:
        """Number of requests in flight."""
        return sum(lane.limit.in_flight for lane in self._lanes)

    async def ask(self, body: JsonObject) -> Reply:
        """Answer a request, given without its model.

        Raises `Unanswered`, and `JobFailed` once no endpoint has been reached for
        ``patience_seconds``.
        """
        gives_up_at = time.monotonic() + self._patience
        tried: set[_Lane] = set()
        refused: set[_Lane] = set()
        attempts = spent = 0
        while True:
            lane = await self._lane_with_room(tried | refused)
            attempts += 1
            try:
                answer = await lane.send(body)
            except ServiceFailed as error:
                self._check_contact(error)
                failed = Unanswered(error, lane.endpoint, attempts)
                if failed.failure.is_refusal:  # holds for this endpoint only
                    refused.add(lane)
                    error.transient = len(refused) < len(self._lanes)
                spent += _cost(error)
                told_when = error.is_congestion and error.retry_after is not None
                waited_enough = error.is_congestion and time.monotonic() > gives_up_at
                if not error.transient or spent >= ATTEMPTS or waited_enough:
                    raise failed from error
            else:
                self._last_contact = time.monotonic()
                return Reply(answer, lane.endpoint, attempts)
            tried.add(lane)
            if all(lane in tried | refused or lane.is_resting for lane in self._lanes):
                tried.clear()
                if not told_when:  # else the endpoint takes nothing before then
                    await asyncio.sleep(self._retries.wait(min(attempts, ATTEMPTS)))

    def _check_contact(self, error: ServiceFailed) -> None:
        now = time.monotonic()
        if error.kind is not FailureKind.UNSENT:
            self._last_contact = now
        elif now - self._last_contact > self._patience:
            raise JobFailed(
                f"no endpoint was reached in {self._patience:.0f} s: {error.message}",
                code="endpoint_unavailable",
            )

    async def _lane_with_room(self, skipped: AbstractSet[_Lane]) -> _Lane:
        """The least busy endpoint for its weight; resting ones only where no other is left."""
        while True:
            lanes = [lane for lane in self._lanes if lane not in skipped]
            lanes = [lane for lane in lanes if not lane.is_resting] or lanes
            free = [lane for lane in lanes if lane.limit.has_room]
            if free:
                return min(free, key=lambda lane: lane.limit.in_flight / lane.endpoint.weight)
            await self._waiters.woken()


def _cost(error: ServiceFailed) -> int:
    """How many of its attempts a failure costs a request: none if the request never ran."""
    if error.kind is FailureKind.UNSENT or error.is_congestion:
        return 0
    return 2 if error.kind is FailureKind.TIMED_OUT else 1
