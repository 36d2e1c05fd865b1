"""/v1/webhooks."""

from fastapi import APIRouter

from services.api.context import Gateway
from services.api.idempotency import Creation
from services.api.webhooks.service import (
    create_webhook,
    get_webhook,
    latest_deliveries,
    list_webhooks,
    remove_webhook,
    webhook_view,
)
from services.contracts.base import DEFAULT_LIMIT, Deleted, Page
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.webhooks import CreatedWebhook, CreateWebhook, Webhook, WebhookDelivery
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of

router = APIRouter(
    prefix="/v1/webhooks", tags=["webhooks"], responses=documented_errors(AuthenticationFailed)
)


@router.post("", summary="Create a webhook", responses=documented_errors(InvalidRequest, Conflict))
def create(creation: Creation, body: CreateWebhook) -> CreatedWebhook:
    """Send events to an address from now on. The secret of the signatures is shown only here."""
    return creation.create(
        "webhooks", body, CreatedWebhook, lambda session: create_webhook(session, body)
    )


@router.get("", summary="List webhooks", responses=documented_errors(InvalidRequest, NotFound))
def list_all(
    gateway: Gateway, _principal: Principal, after: After = None, limit: Limit = DEFAULT_LIMIT
) -> Page[Webhook]:
    """List webhooks, newest first."""
    with gateway.database.read() as session:
        webhooks, has_more = list_webhooks(session, after, limit)
    return page_of(webhooks, has_more)


@router.get("/{webhook_id}", summary="Get a webhook", responses=documented_errors(NotFound))
def get(gateway: Gateway, _principal: Principal, webhook_id: str) -> Webhook:
    """Get a webhook."""
    with gateway.database.read() as session:
        return webhook_view(get_webhook(session, webhook_id))


@router.get(
    "/{webhook_id}/deliveries",
    summary="List what was sent to a webhook",
    responses=documented_errors(InvalidRequest, NotFound),
)
def deliveries(
    gateway: Gateway, _principal: Principal, webhook_id: str, limit: Limit = DEFAULT_LIMIT
) -> Page[WebhookDelivery]:
    """List the latest events for a webhook, with their attempts. They are kept for a week."""
    with gateway.database.read() as session:
        return page_of(latest_deliveries(session, webhook_id, limit), has_more=False)


@router.delete("/{webhook_id}", summary="Delete a webhook", responses=documented_errors(NotFound))
def delete(gateway: Gateway, _principal: Principal, webhook_id: str) -> Deleted:
    """Delete a webhook; what has not been delivered to it is dropped."""
    with gateway.database.write() as session:
        remove_webhook(session, webhook_id)
    return Deleted(id=webhook_id, object="webhook")
