"""``temper campaign``: an LLM looks for a better fine-tune of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.campaigns import sync
from temper.cli.campaigns.batch import batch
from temper.cli.campaigns.history import fork, rewind
from temper.cli.gateway import connect
from temper.cli.jobs.job_view import job_fields
from temper.cli.jobs.jobs import logs
from temper.cli.output import JsonOption, Output

if TYPE_CHECKING:
    from rich.text import Text

    from services.contracts.campaigns.loops import CampaignLoop

app = typer.Typer(help="Campaigns: an LLM proposes fine-tunes, measurements decide.")

CampaignId = Annotated[str, typer.Argument(metavar="ID")]


@app.command()
def show(campaign_id: CampaignId, as_json: JsonOption = False) -> None:
    """Show a campaign and its attempts with their scores."""
    out = Output(as_json)
    with connect() as client:
        campaign = client.campaigns.get(campaign_id)
        loops = client.campaigns.loops(campaign_id)
    if as_json:
        out.document(campaign)
        return
    policies = {"accepted with": str(campaign.acceptance), "seeds": str(campaign.seeds)}
    if (floor := next((loop.noise_floor for loop in loops if loop.loop == 0), None)) is not None:
        policies["noise"] = f"gains up to about {floor:.4f}, by two measurements of the base model"
    out.fields({**job_fields(campaign), "base model": campaign.base_model, **policies})
    out.table(LOOP_COLUMNS, (_row(loop) for loop in loops))


@app.command()
def best(campaign_id: CampaignId, as_json: JsonOption = False) -> None:
    """Show the best attempt so far."""
    out = Output(as_json)
    with connect() as client:
        loop = client.campaigns.best(campaign_id)
    if as_json:
        out.document(loop)
    else:
        out.table(LOOP_COLUMNS, [_row(loop)])


@app.command()
def report(
    campaign_id: CampaignId,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; .html and .htm get a page of HTML."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report on a campaign: attempts, best model, lessons and cost, in Markdown or HTML."""
    out = Output(as_json)
    with connect() as client:
        if as_json:
            out.document(client.campaigns.report(campaign_id))
            return
        is_html = output is not None and output.suffix.lower() in {".html", ".htm"}
        page = client.campaigns.report_page(campaign_id, "html" if is_html else "markdown")
    if output is None:
        out.line(page.rstrip())
        return
    output.write_text(page, encoding="utf-8")
    out.note(f"written to {output}")


app.command("batch")(batch)
app.add_typer(sync.app, name="sync")
app.command("logs")(logs)
app.command("fork")(fork)
app.command("rewind")(rewind)

LOOP_COLUMNS = ("LOOP", "FROM", "VERDICT", "SEARCH", "FINAL", "GAIN (95 %)", "MODEL", "TRIED")


def _row(loop: CampaignLoop) -> tuple[str | Text, ...]:
    gain = ""
    if loop.comparison is not None:
        low, high = loop.comparison.ci95
        gain = f"{loop.comparison.difference:+.3f} ({low:+.3f} to {high:+.3f})"
        if (second := loop.comparison.second_look) is not None:
            low, high = second.ci95
            gain += f", again {second.difference:+.3f} ({low:+.3f} to {high:+.3f})"
        left_out = max(loop.comparison.left_out, second.left_out if second else 0)
        gain += f", {left_out} items left out" if left_out else ""
    return (
        str(loop.loop),
        "" if loop.parent is None else str(loop.parent),
        _verdict(loop),
        _score(loop.search_score) + (f" ({len(loop.seeds)} seeds)" if loop.seeds else ""),
        _score(loop.final_score),
        gain,
        loop.model or "",
        loop.hypothesis or loop.failure_message or "",
    )


def _verdict(loop: CampaignLoop) -> Text:
    from rich.text import Text

    if loop.loop == 0:
        return Text("base")
    if loop.failure is not None:
        return Text(f"failed: {loop.failure.value}", style="red")
    if loop.accepted is None:
        return Text("under way", style="cyan")
    return Text("accepted", style="green") if loop.accepted else Text("rejected", style="yellow")


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.4f}"
