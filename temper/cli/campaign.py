"""``temper campaign``: an LLM looks for a better fine-tune of a model."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError
from rich.text import Text

from services.contracts.campaigns import CampaignLoop, CreateCampaign
from services.contracts.files import FilePurpose
from temper.cli import campaign_sync
from temper.cli.campaign_batch import batch
from temper.cli.campaign_history import fork, rewind
from temper.cli.gateway import connect
from temper.cli.job_view import job_fields
from temper.cli.jobs import logs
from temper.cli.output import JsonOption, Output
from temper.client import Temper

app = typer.Typer(help="Campaigns: an LLM proposes fine-tunes, measurements decide.")

CampaignId = Annotated[str, typer.Argument(metavar="ID")]
DatasetOption = Annotated[
    list[str],
    typer.Option(
        "--dataset",
        metavar="NAME[=FILE]",
        help="A registered data set, or a file, that scripts may use; repeatable; none: all "
        "registered ones.",
    ),
]


@app.command()
def start(
    base_model: Annotated[str, typer.Option(help="A registered model.")],
    scenario: Annotated[str, typer.Option(help="What the model shall do, in words.")],
    file: Annotated[
        str, typer.Option(metavar="FILE", help="Rows of {prompt, gold}: a path or an uploaded id.")
    ],
    llm_url: Annotated[str, typer.Option(help="OpenAI-compatible endpoint, up to /v1.")],
    llm_model: Annotated[str, typer.Option(help="Its model.")],
    dataset: DatasetOption = [],  # noqa: B006 - typer copies it
    grader: Annotated[
        Literal["exact", "numeric"], typer.Option(help="How answers are graded.")
    ] = "exact",
    loops: Annotated[int, typer.Option(min=1, help="Attempts at most.")] = 3,
    hours: Annotated[float | None, typer.Option(help="Hours at most.")] = None,
    llm_tokens: Annotated[int | None, typer.Option(help="Tokens of the LLM at most.")] = None,
    gpu_hours: Annotated[float | None, typer.Option(help="GPU hours of its jobs at most.")] = None,
    cost: Annotated[float | None, typer.Option(help="Cost of the LLM; needs both prices.")] = None,
    prompt_price: Annotated[
        float | None, typer.Option(help="The LLM's price of a million prompt tokens.")
    ] = None,
    completion_price: Annotated[
        float | None, typer.Option(help="The same of completion tokens.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a campaign; files are uploaded first."""
    out = Output(as_json)
    if (prompt_price is None) != (completion_price is None):
        raise typer.BadParameter("--prompt-price and --completion-price go together")
    prices = {"prompt": prompt_price, "completion": completion_price}
    price = None if prompt_price is None else prices
    with connect() as client:
        body = {
            "base_model": base_model,
            "scenario": scenario,
            "file": _file_id(client, file, FilePurpose.EVALS),
            "grader": {"type": grader},
            "datasets": [_dataset(client, given) for given in dataset],
            "llm": {"base_url": llm_url, "model": llm_model, "price": price},
            "budget": {
                "loops": loops,
                "hours": hours,
                "llm_tokens": llm_tokens,
                "gpu_hours": gpu_hours,
                "cost": cost,
            },
        }
        try:
            request = CreateCampaign.model_validate(body)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise typer.BadParameter(f"{where}: {first['msg']}") from error
        campaign = client.campaigns.create(request)
    if as_json:
        out.document(campaign)
    else:
        out.line(campaign.id)
        out.note(f"follow it:  temper campaign logs -f {campaign.id}", "dim")


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
    out.fields({**job_fields(campaign), "base model": campaign.base_model})
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
app.add_typer(campaign_sync.app, name="sync")
app.command("logs")(logs)
app.command("fork")(fork)
app.command("rewind")(rewind)

LOOP_COLUMNS = ("LOOP", "FROM", "VERDICT", "SEARCH", "FINAL", "GAIN (95 %)", "MODEL", "TRIED")


def _row(loop: CampaignLoop) -> tuple[str | Text, ...]:
    gain = ""
    if loop.comparison is not None:
        low, high = loop.comparison.ci95
        gain = f"{loop.comparison.difference:+.3f} ({low:+.3f} to {high:+.3f})"
    return (
        str(loop.loop),
        "" if loop.parent is None else str(loop.parent),
        _verdict(loop),
        _score(loop.search_score),
        _score(loop.final_score),
        gain,
        loop.model or "",
        loop.hypothesis or loop.failure_message or "",
    )


def _verdict(loop: CampaignLoop) -> Text:
    if loop.loop == 0:
        return Text("base")
    if loop.failure is not None:
        return Text(f"failed: {loop.failure.value}", style="red")
    if loop.accepted is None:
        return Text("under way", style="cyan")
    return Text("accepted", style="green") if loop.accepted else Text("rejected", style="yellow")


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.4f}"


def _dataset(client: Temper, given: str) -> dict[str, Any]:
    name, equals, file = given.partition("=")
    if not name or bool(equals) != bool(file):
        raise typer.BadParameter(f"{given!r} is not NAME or NAME=FILE", param_hint="--dataset")
    if not file:
        return {"name": name}
    return {"name": name, "file": _file_id(client, file, FilePurpose.USER_DATA)}


def _file_id(client: Temper, given: str, purpose: FilePurpose) -> str:
    """The id of an uploaded file; a path is uploaded."""
    path = Path(given)
    if given.startswith("file-") and not path.exists():
        return given
    return client.files.upload(path, purpose).id
