"""``temper campaign sync``: the logs of campaigns in a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from temper.cli.gateway import connect
from temper.cli.output import Output
from temper.cli.units import size

if TYPE_CHECKING:
    from temper.client import Temper
    from temper.sync.store import LogStore
    from temper.sync.transfer import LogFile, Transferred

app = typer.Typer(help="Copy the logs of campaigns to a store and back.")

AZURE = frozenset({"az", "abfs", "abfss"})
LOG = "log/"
MOST_CAMPAIGNS = 10_000
CLOCK_SKEW = timedelta(minutes=15)
"""How much earlier a token begins: a store refuses one that is not valid yet."""

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="A folder, s3://bucket/path, az://container/path; else TEMPER_CAMPAIGN_STORE.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="A file with a SAS token of Azure Blob.")
]


@app.command()
def up(
    campaigns: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of campaigns; default: all.")
    ] = None,
    store: StoreUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Send what has changed in the logs of campaigns."""
    from temper.sync.sas_token import RIGHTS_UP

    out = Output(as_json=False)
    target = open_store(store, token_file, RIGHTS_UP)
    with connect() as client:
        ids = campaigns or _all(client)
        _say(out, send_logs(client, target, ids), "sent")


@app.command()
def down(
    folder: Annotated[
        Path, typer.Option(help="Folder in which the folder log is, or will be.")
    ] = Path(),
    store: StoreUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Fetch what has changed in the store."""
    from temper.sync.sas_token import RIGHTS_DOWN
    from temper.sync.transfer import fetch

    out = Output(as_json=False)
    _say(out, fetch(open_store(store, token_file, RIGHTS_DOWN), folder), "fetched")


@app.command()
def token(
    account: Annotated[str, typer.Option(help="The storage account.")],
    container: Annotated[str, typer.Option(help="Container in the storage account.")],
    expires: Annotated[str, typer.Option(help="Lifetime of the token, such as 12h or 7d.")] = "7d",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; default: TEMPER_CAMPAIGN_STORE_TOKEN_FILE."
        ),
    ] = None,
) -> None:
    """Make a SAS token of Azure Blob that lists, reads, writes and deletes."""
    from temper.formats.campaign_tasks import read_duration
    from temper.settings import load_settings
    from temper.submission.submission import SubmissionError
    from temper.sync.sas_token import make_token, write_token

    path = output or load_settings().campaign_store_token_file
    if path is None:
        raise SubmissionError("no file: give -o, or set TEMPER_CAMPAIGN_STORE_TOKEN_FILE")
    try:
        seconds = read_duration(expires)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--expires") from error
    now = datetime.now(UTC)
    end = now + timedelta(seconds=seconds)
    write_token(make_token(account, container, now - CLOCK_SKEW, end), path)
    Output(as_json=False).note(f"written to {path}; it expires at {end:%Y-%m-%d %H:%M} UTC")


def open_store(url: str | None, token_file: Path | None, rights: str) -> LogStore:
    """The store, once its token and the store itself have been tried; raises `SubmissionError`."""
    from temper.settings import load_settings
    from temper.submission.submission import SubmissionError
    from temper.sync.sas_token import check_token, read_token
    from temper.sync.store import LogStore, scheme_of

    settings = load_settings()
    place = url or settings.campaign_store
    if not place:
        raise SubmissionError("no store: give --store, or set TEMPER_CAMPAIGN_STORE")
    options: dict[str, Any] = {}
    token_file = token_file or settings.campaign_store_token_file
    if token_file is not None:
        if scheme_of(place) not in AZURE:
            raise SubmissionError(f"{place}: a SAS token is for az:// and abfs:// only")
        token = read_token(token_file)
        check_token(token, rights, datetime.now(UTC))
        options["sas_token"] = token
    store = LogStore(place, options)
    store.check()
    return store


def send_logs(client: Temper, store: LogStore, campaigns: Sequence[str]) -> Transferred:
    """Send what has changed in the logs of campaigns."""
    from temper.sync.transfer import send

    return send(store, _files(client, campaigns))


def _all(client: Temper) -> list[str]:
    from services.contracts.jobs import JobKind

    return [job.id for job in client.jobs.page(kind=JobKind.CAMPAIGN, most=MOST_CAMPAIGNS).data]


def _files(client: Temper, campaigns: Sequence[str]) -> Iterator[LogFile]:
    from temper.sync.transfer import LogFile

    for campaign in campaigns:
        for artifact in client.jobs.artifacts(campaign):
            is_whole = not artifact.id.endswith(".partial")
            if artifact.id.startswith(LOG) and is_whole:
                read = partial(client.jobs.artifact, campaign, artifact.id)
                yield LogFile(artifact.id, read)


def _say(out: Output, done: Transferred, verb: str) -> None:
    out.line(f"{verb} {done.files} files, {size(done.bytes)}; {done.unchanged} unchanged")
