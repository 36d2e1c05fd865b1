"""Sends events to webhooks: a gateway thread that works off the queue of deliveries.

Every endpoint has attempts of its own, a few at a time, and none waits for another endpoint.
Several gateways may each run one: a delivery is claimed by moving its next attempt. A gateway that
dies in an attempt leaves that delivery to another one, so that an event may arrive twice, with the
same ``webhook-id``, and is never lost.
"""

import asyncio
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, delete, select, update

from services.api.webhooks.signing import signed_headers
from services.core.db.engine import Database
from services.core.db.tables import WebhookDeliveryRow, WebhookRow

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

POLL_SECONDS = 3.0
CLAIM_SECONDS = 60.0
"""An attempt that takes longer belongs to a gateway that died."""
RETRY_SECONDS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
"""Waits before further attempts, a day and a half in all; then a delivery has failed."""
PER_ENDPOINT = 4
"""Attempts in flight at one endpoint. A delivery is claimed only as its attempt begins."""
BATCH_SIZE = 64
KEPT_SECONDS = 7 * 86_400.0

_Due = tuple[WebhookDeliveryRow, WebhookRow]


class WebhookSender:
    """Delivers due events. ``private_allowed``: to private addresses, too."""

    def __init__(
        self,
        database: Database,
        *,
        private_allowed: bool,
        client: "Callable[[], httpx.AsyncClient] | None" = None,
    ) -> None:
        self._database = database
        self._private_allowed = private_allowed
        self._client = client or _direct_client
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 15.0) -> None:
        """Stop after the current attempts."""
        self._stopping.set()
        self._thread.join(timeout)

    async def deliver_due(self, client: "httpx.AsyncClient") -> int:
        """Attempt what is due until nothing is; return the number of attempts."""
        loop = asyncio.get_running_loop()
        running: dict[asyncio.Task[None], str] = {}
        count = 0
        # One thread: a write that waits for the database must not stop the attempts' clocks.
        with ThreadPoolExecutor(1, thread_name_prefix="webhooks-database") as records:

            async def attempt(due: _Due) -> None:
                error = await self._attempt(client, *due)
                await loop.run_in_executor(records, self._record, due[0], error)

            while True:
                for due in await loop.run_in_executor(
                    records, self._claim, Counter(running.values())
                ):
                    running[asyncio.create_task(attempt(due))] = due[1].id
                    count += 1
                if not running:
                    return count
                done, _ = await asyncio.wait(
                    running, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    del running[task]
                    task.result()

    def _claim(self, busy: Counter[str]) -> list[_Due]:
        """The next deliveries of the endpoints with less than `PER_ENDPOINT` in flight, as
        counted in ``busy``."""
        claimed: list[_Due] = []
        while not self._stopping.is_set():
            full = [endpoint for endpoint, count in busy.items() if count >= PER_ENDPOINT]
            found = self._claim_beside(full, busy) if self._any_due(full) else []
            if not found:
                break
            claimed += found
        return claimed

    def _claim_beside(self, full: list[str], busy: Counter[str]) -> list[_Due]:
        """Deliveries to others than the ``full`` endpoints, which are counted in ``busy``."""
        at = time.time()
        with self._database.write() as session:
            rows = session.scalars(
                select(WebhookDeliveryRow)
                .where(*_due_beside(full))
                .order_by(WebhookDeliveryRow.next_attempt_at)
                .limit(BATCH_SIZE)
                .with_for_update(skip_locked=True)
            ).all()
            due: list[_Due] = []
            for row in rows:
                if busy[row.webhook_id] >= PER_ENDPOINT:
                    continue
                webhook = session.scalar(select(WebhookRow).where(WebhookRow.id == row.webhook_id))
                if webhook is None:  # deleted while the event was announced
                    session.delete(row)
                    continue
                busy[row.webhook_id] += 1
                row.next_attempt_at = at + CLAIM_SECONDS
                row.attempts += 1
                due.append((row, webhook))
            session.flush()
            session.expunge_all()
        return due

    async def _attempt(
        self, client: "httpx.AsyncClient", delivery: WebhookDeliveryRow, webhook: WebhookRow
    ) -> str | None:
        """Post an event; return the error, None if it was accepted."""
        from services.api.webhooks.posting import NotDelivered, post  # noqa: PLC0415 - with httpx

        body = json.dumps(_content(delivery.event, webhook.format)).encode()
        headers = signed_headers(webhook.secret, delivery.event_id, int(time.time()), body)
        try:
            await post(client, webhook.url, body, headers, private_allowed=self._private_allowed)
        except NotDelivered as refusal:
            return str(refusal)
        except Exception as bug:  # one endpoint must not stop the others
            logger.exception("webhook %s", webhook.id)
            return f"{type(bug).__name__}: {bug}"
        return None

    def _record(self, delivery: WebhookDeliveryRow, error: str | None) -> None:
        """Record an attempt, and plan the next one after an error."""
        values: dict[str, Any] = {"status": "delivered", "last_error": None}
        values["next_attempt_at"] = None
        if error is not None:
            more = delivery.attempts <= len(RETRY_SECONDS)
            values["last_error"] = error
            values["status"] = "pending" if more else "failed"
            if more:
                values["next_attempt_at"] = time.time() + RETRY_SECONDS[delivery.attempts - 1]
        with self._database.write() as session:
            own = WebhookDeliveryRow.seq == delivery.seq
            still = WebhookDeliveryRow.attempts == delivery.attempts  # else claimed by another
            session.execute(update(WebhookDeliveryRow).where(own, still).values(**values))

    def _remove_old(self) -> None:
        ended = WebhookDeliveryRow.next_attempt_at.is_(None)
        old = WebhookDeliveryRow.created_at < time.time() - KEPT_SECONDS
        with self._database.write() as session:
            session.execute(delete(WebhookDeliveryRow).where(ended, old))

    def _any_due(self, full: list[str]) -> bool:
        with self._database.read() as session:
            due = select(WebhookDeliveryRow.seq).where(*_due_beside(full))
            return session.scalar(due.limit(1)) is not None

    def _run(self) -> None:
        cleaned = 0.0
        while not self._stopping.wait(POLL_SECONDS):
            try:
                if self._any_due([]):
                    asyncio.run(self._deliver_all())
                if time.monotonic() - cleaned > 3600.0:
                    cleaned = time.monotonic()
                    self._remove_old()
            except Exception:
                logger.exception("webhooks: retrying")

    async def _deliver_all(self) -> None:
        async with self._client() as client:
            await self.deliver_due(client)


def _due_beside(full: list[str]) -> list[ColumnElement[bool]]:
    """The conditions of deliveries that are due, to other endpoints than these."""
    due = WebhookDeliveryRow.next_attempt_at <= time.time()
    return [due, WebhookDeliveryRow.webhook_id.not_in(full)] if full else [due]


def _direct_client() -> "httpx.AsyncClient":
    import httpx  # noqa: PLC0415 - a gateway without webhooks need not load it

    return httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_connections=None))


def _content(event: dict[str, Any], body_format: str) -> dict[str, Any]:
    """The body for an event."""
    if body_format != "slack":
        return event
    data = event["data"]
    subject = data.get("job_id") or data["id"]
    return {"text": f"{event['type']}: {subject}: {data.get('message', '')}"}
