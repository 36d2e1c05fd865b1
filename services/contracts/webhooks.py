"""Webhooks: endpoints that are told of what happens to jobs, and what was sent to them."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AnyHttpUrl, Field

from services.contracts.base import Request, Resource

MAX_WEBHOOKS = 100
MAX_URL_CHARACTERS = 2000


class EventType(StrEnum):
    """What a webhook can be told of."""

    JOB_RUNNING = "job.running"
    JOB_PAUSED = "job.paused"
    JOB_SUCCEEDED = "job.succeeded"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    ALERT_RAISED = "alert.raised"
    ALERT_RESOLVED = "alert.resolved"


def _without_credentials(url: AnyHttpUrl) -> AnyHttpUrl:
    if url.username or url.password:
        raise ValueError("must hold no credentials; requests are signed instead")
    if url.fragment:
        raise ValueError("must have no fragment")
    if len(str(url)) > MAX_URL_CHARACTERS:
        raise ValueError(f"must have at most {MAX_URL_CHARACTERS:,} characters")
    return url


class CreateWebhook(Request):
    """The body of POST /v1/webhooks."""

    url: Annotated[AnyHttpUrl, AfterValidator(_without_credentials)] = Field(
        description="Address that events are posted to: http or https, and not a private one "
        "unless the operator allows that.",
        examples=["https://example.com/hooks/temper"],
    )
    events: list[EventType] = Field(
        default_factory=lambda: list(EventType),
        min_length=1,
        max_length=len(EventType),
        description="Events to send; all of them by default.",
    )
    format: Literal["standard", "slack"] = Field(
        default="standard",
        description="Body of the requests: `standard`, an event as JSON, or `slack`, its text in "
        "the form that incoming webhooks of Slack and Mattermost take.",
    )


class Webhook(Resource):
    """An endpoint that events are sent to."""

    id: str = Field(description="Id of the webhook.")
    object: Literal["webhook"] = "webhook"
    url: str = Field(description="Address that events are posted to.")
    events: list[EventType] = Field(description="Types of the events that are sent.")
    format: Literal["standard", "slack"] = Field(
        description="Format of the bodies: standard or slack."
    )
    created_at: int = Field(description="Time at which the webhook was added, in Unix seconds.")


class CreatedWebhook(Webhook):
    """A new webhook with the secret of its signatures, which is shown only once."""

    secret: str = Field(description="Key of the signatures, `whsec_` and base64.")


class WebhookDelivery(Resource):
    """One event on its way to one webhook."""

    id: str = Field(description="ID of the event, sent as `webhook-id`; equal in every attempt.")
    object: Literal["webhook.delivery"] = "webhook.delivery"
    type: EventType = Field(description="Type of the event.")
    status: Literal["pending", "delivered", "failed"] = Field(description="Status of the delivery.")
    attempts: int = Field(description="Number of attempts so far.")
    last_error: str | None = Field(description="Reason why the latest attempt failed.")
    created_at: int = Field(description="Time of the event, in Unix seconds.")
    next_attempt_at: int | None = Field(description="Time of the next attempt, if any.")


class WebhookEvent(Resource):
    """The body of a request to a webhook of format `standard`."""

    id: str
    object: Literal["event"] = "event"
    type: EventType
    created_at: int
    data: dict[str, Any] = Field(
        description="Fields of the event's subject: `id`, `kind`, `status`, `message` and `error` "
        "of a job; `id`, `rule`, `job_id`, `message` and `value` of an alert."
    )
