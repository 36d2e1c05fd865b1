"""``temper alerts`` and ``temper webhooks``."""

from typing import Annotated

import typer
from pydantic import ValidationError

from services.contracts.validation import message_of
from services.contracts.webhooks import EventType
from temper.cli.gateway import connect
from temper.cli.output import JsonOption, Output
from temper.cli.units import age

webhooks = typer.Typer(help="Endpoints notified of jobs and alerts.", no_args_is_help=True)

OfJob = Annotated[str | None, typer.Option("--job", metavar="JOB", help="Alerts of this job.")]
All = Annotated[bool, typer.Option("--all", help="Include resolved alerts.")]
Most = Annotated[int, typer.Option("-n", min=1, max=1000, help="Maximum number to list.")]
WebhookId = Annotated[str, typer.Argument(metavar="ID")]
Url = Annotated[str, typer.Argument(metavar="URL", help="Address that events are posted to.")]
Events = Annotated[
    list[EventType] | None,
    typer.Option("--event", help="Event to send; repeatable. Default: all."),
]
Slack = Annotated[bool, typer.Option("--slack", help="Send text in the form that Slack takes.")]


def alerts(
    job: OfJob = None, everything: All = False, most: Most = 100, as_json: JsonOption = False
) -> None:
    """List what goes wrong now, in jobs and on the gateway's disk."""
    out = Output(as_json)
    with connect() as client:
        page = client.alerts.page(job, resolved=everything, most=most)
    if as_json:
        out.document(page)
        return
    rows = [
        (alert.rule.value, alert.job_id or "", alert.status, age(alert.raised_at), alert.message)
        for alert in page.data
    ]
    out.table(("RULE", "JOB", "STATUS", "AGE", "MESSAGE"), rows)


@webhooks.command("add")
def add(url: Url, events: Events = None, slack: Slack = False, as_json: JsonOption = False) -> None:
    """Send events to an address; prints the secret of the signatures, once."""
    out = Output(as_json)
    wanted = events or list(EventType)
    with connect() as client:
        try:
            created = client.webhooks.create(url, wanted, "slack" if slack else "standard")
        except ValidationError as error:
            message = "; ".join(message_of(problem) for problem in error.errors())
            raise typer.BadParameter(message, param_hint="URL") from None
    if as_json:
        out.document(created)
        return
    out.line(f"{created.id}, secret {created.secret}")


@webhooks.command("list")
def list_webhooks(most: Most = 100, as_json: JsonOption = False) -> None:
    """List webhooks."""
    out = Output(as_json)
    with connect() as client:
        page = client.webhooks.page(most=most)
    if as_json:
        out.document(page)
        return
    rows = [
        (hook.id, hook.format, age(hook.created_at), hook.url, " ".join(hook.events))
        for hook in page.data
    ]
    out.table(("ID", "FORMAT", "AGE", "URL", "EVENTS"), rows)


@webhooks.command("deliveries")
def deliveries(webhook_id: WebhookId, most: Most = 20, as_json: JsonOption = False) -> None:
    """List what was sent to a webhook, and why attempts failed."""
    out = Output(as_json)
    with connect() as client:
        page = client.webhooks.deliveries(webhook_id, most=most)
    if as_json:
        out.document(page)
        return
    rows = [
        (each.id, each.type.value, each.status, str(each.attempts), each.last_error or "")
        for each in page.data
    ]
    out.table(("EVENT", "TYPE", "STATUS", "ATTEMPTS", "LAST ERROR"), rows)


@webhooks.command("delete")
def delete(webhook_id: WebhookId) -> None:
    """Delete a webhook."""
    with connect() as client:
        client.webhooks.delete(webhook_id)
    Output(False).note(f"deleted {webhook_id}")
