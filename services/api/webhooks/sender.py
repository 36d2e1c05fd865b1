"""Sends events to webhooks: a gateway thread that works off the queue of deliveries.

Several gateways may each run one: a delivery is claimed by moving its next attempt. A gateway that
dies in an attempt leaves that delivery to another one, so that an event may arrive twice, with the
same ``webhook-id``, and is never lost.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update

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
CONCURRENT = 8
BATCH_SIZE = 64
KEPT_SECONDS = 7 * 86_400.0

_Due = tuple[WebhookDeliveryRow, WebhookRow | None]


class WebhookSender:
    """Delivers due events. ``private_allowed``: to private addresses, too."""

    def __init__(
        self,
        database: Database,
        *,
        private_allowed: bool,
        client: "Callable[[], httpx.Client] | None" = None,
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

    def deliver_due(self, client: "httpx.Client") -> int:
        """Attempt every due delivery once; return their number."""
        due = self._claim()
        with ThreadPoolExecutor(CONCURRENT, thread_name_prefix="webhook") as pool:
            list(pool.map(lambda each: self._attempt(client, *each), due))
        return len(due)

    def _claim(self) -> list[_Due]:
        at = time.time()
        with self._database.write() as session:
            rows = session.scalars(
                select(WebhookDeliveryRow)
                .where(WebhookDeliveryRow.next_attempt_at <= at)
                .order_by(WebhookDeliveryRow.next_attempt_at)
                .limit(BATCH_SIZE)
                .with_for_update(skip_locked=True)
            ).all()
            due: list[_Due] = []
            for row in rows:
                endpoint = select(WebhookRow).where(WebhookRow.id == row.webhook_id)
                row.next_attempt_at = at + CLAIM_SECONDS
                row.attempts += 1
                due.append((row, session.scalar(endpoint)))
            session.flush()
            session.expunge_all()
        return due

    def _attempt(
        self, client: "httpx.Client", delivery: WebhookDeliveryRow, webhook: WebhookRow | None
    ) -> None:
        from services.api.webhooks.posting import NotDelivered, post  # noqa: PLC0415 - with httpx

        if webhook is None:
            return  # deleted; its deliveries went with it
        body = json.dumps(_content(delivery.event, webhook.format)).encode()
        headers = signed_headers(webhook.secret, delivery.event_id, int(time.time()), body)
        error: str | None = None
        try:
            post(client, webhook.url, body, headers, private_allowed=self._private_allowed)
        except NotDelivered as refusal:
            error = str(refusal)
        except Exception as bug:  # one endpoint must not stop the others
            logger.exception("webhook %s", webhook.id)
            error = f"{type(bug).__name__}: {bug}"
        self._record(delivery, error)

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
            session.execute(update(WebhookDeliveryRow).where(own).values(**values))

    def _remove_old(self) -> None:
        ended = WebhookDeliveryRow.next_attempt_at.is_(None)
        old = WebhookDeliveryRow.created_at < time.time() - KEPT_SECONDS
        with self._database.write() as session:
            session.execute(delete(WebhookDeliveryRow).where(ended, old))

    def _any_due(self) -> bool:
        with self._database.read() as session:
            due = WebhookDeliveryRow.next_attempt_at <= time.time()
            return session.scalar(select(WebhookDeliveryRow.seq).where(due).limit(1)) is not None

    def _run(self) -> None:
        cleaned = 0.0
        while not self._stopping.wait(POLL_SECONDS):
            try:
                if self._any_due():
                    self._deliver_all()
                if time.monotonic() - cleaned > 3600.0:
                    cleaned = time.monotonic()
                    self._remove_old()
            except Exception:
                logger.exception("webhooks: retrying")

    def _deliver_all(self) -> None:
        with self._client() as client:
            while self._any_due() and not self._stopping.is_set():
                self.deliver_due(client)


def _direct_client() -> "httpx.Client":
    import httpx  # noqa: PLC0415 - a gateway without webhooks need not load it

    return httpx.Client(trust_env=False)


def _content(event: dict[str, Any], body_format: str) -> dict[str, Any]:
    """The body for an event."""
    if body_format != "slack":
        return event
    data = event["data"]
    subject = data.get("job_id") or data["id"]
    return {"text": f"{event['type']}: {subject}: {data.get('message', '')}"}
