"""``temper campaign batch``: the campaigns of a task file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.campaigns.sync import open_store, send_logs
from temper.cli.gateway import connect
from temper.cli.output import JsonOption, Output, transfer_bar
from temper.cli.units import duration
from temper.client.errors import WaitTimedOut

if TYPE_CHECKING:
    from services.contracts.campaigns.llms import ScriptLlms
    from temper.client import Temper
    from temper.formats.campaign_environment import CampaignEnvironment
    from temper.submission.campaign_batch import PlannedCampaign
    from temper.submission.submit import Reporting
    from temper.sync.store import LogStore

SYNC_SECONDS = 300.0
"""How often logs are sent while campaigns run."""


def batch(
    tasks: Annotated[Path, typer.Argument(help="A JSON file of tasks.")],
    env_file: Annotated[
        Path | None, typer.Option(help="File of KEY=value lines for all tasks; default: .env.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what each task would do; create nothing.")
    ] = False,
    no_sync: Annotated[
        bool, typer.Option("--no-sync", help="Create the campaigns and leave; send no logs.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start the campaigns of a task file; those on the same GPUs wait for each other.

    Nothing is created unless every task is valid. With TEMPER_CAMPAIGN_STORE it stays and sends
    their logs there until all have ended.
    """
    from temper.formats.campaign_environment import working_environment
    from temper.formats.campaign_tasks import read_tasks
    from temper.settings import load_settings
    from temper.submission.campaign_batch import plan_campaigns, predecessors
    from temper.sync.sas_token import RIGHTS_UP

    out = Output(as_json)
    environment = working_environment(env_file)
    planned = plan_campaigns(read_tasks(tasks), environment)
    for warning in environment.warnings:
        out.note(f"warning: {warning}", "yellow")
    if dry_run:
        for number, task in enumerate(planned):
            _show(out, number, task, predecessors(planned)[number], environment)
        return
    syncs = bool(load_settings().campaign_store) and not no_sync
    store = open_store(None, None, RIGHTS_UP) if syncs else None
    if environment.hub_token is not None:
        os.environ["HF_TOKEN"] = environment.hub_token
    with connect() as client:
        ids = _create(client, out, planned)
        if store is not None:
            _send_until_ended(client, store, ids)


def _send_until_ended(client: Temper, store: LogStore, ids: list[str]) -> None:
    for campaign in ids:
        ended = False
        while not ended:
            try:
                client.jobs.wait(campaign, timeout=SYNC_SECONDS)
                ended = True
            except WaitTimedOut:
                pass
            send_logs(client, store, ids)


def _create(client: Temper, out: Output, planned: list[PlannedCampaign]) -> list[str]:
    from temper.submission.campaign_batch import predecessors
    from temper.submission.submit import Reporting, ensure_model

    report = Reporting(out.note, lambda label: transfer_bar(out, label))
    # All files are there before the first campaign is.
    files = [_files(client, task, report) for task in planned]
    ids: list[str] = []
    for task, (rows, datasets), before in zip(planned, files, predecessors(planned), strict=True):
        ensure_model(client, task.request.base_model, report)
        after = [ids[number] for number in before]
        campaign = client.campaigns.create(task.ready(rows, datasets, after))
        ids.append(campaign.id)
        if out.as_json:
            out.json_line(campaign)
        else:
            out.line(campaign.id)
    return ids


def _files(client: Temper, task: PlannedCampaign, report: Reporting) -> tuple[str, dict[str, str]]:
    from services.contracts.data.files import FilePurpose
    from services.contracts.training.rows import HUB_DATASET_PREFIX
    from temper.submission.hub import fetch_hub_file
    from temper.submission.submission import LocalFile
    from temper.submission.submit import stored

    is_of_hub = task.rows.startswith(HUB_DATASET_PREFIX)
    rows = fetch_hub_file(task.rows) if is_of_hub else Path(task.rows)
    datasets = {
        name: stored(client, LocalFile(name, path, FilePurpose.USER_DATA), report)
        for name, path in task.datasets.items()
        if path is not None
    }
    return stored(client, LocalFile("file", rows, FilePurpose.EVALS), report), datasets


def _show(
    out: Output,
    number: int,
    task: PlannedCampaign,
    before: list[int],
    environment: CampaignEnvironment,
) -> None:
    request = task.request
    limits = request.time_limits
    hours = request.budget.hours or 0.0
    seconds = {
        "debug data": limits.debug_script,
        "data": limits.script,
        "training": limits.training,
        "benchmark": limits.evaluation,
    }
    out.line(f"task {number}", "bold")
    out.fields(
        {
            "  model": request.base_model,
            "  benchmark": f"{request.benchmark} ({task.rows})",
            "  scenario": request.scenario.splitlines()[0],
            "  data sets": ", ".join(
                f"{name} ({path or 'registered'})" for name, path in task.datasets.items()
            )
            or "all registered ones",
            "  devices": ", ".join(map(str, request.devices or ())) or "any",
            "  waits for": ", ".join(f"task {each}" for each in before),
            "  LLM": f"{request.llm.model} at {request.llm.base_url}",
            "  LLMs of scripts": _script_llms(request.script_llms),
            "  timeout": duration(hours * 3600),
            "  limits": ", ".join(
                f"{name} {duration(value)}" for name, value in seconds.items() if value is not None
            ),
            "  training rows": str(request.training_rows or ""),
            "  coding attempts": str(request.budget.coding_attempts),
            **{f"  {key}": value for key, value in environment.shown.items()},
        }
    )


def _script_llms(llms: ScriptLlms | None) -> str:
    if llms is None:
        return "none"
    pools = {"strong": llms.strong, "weak": llms.weak}
    named = [
        f"{name} {', '.join(each.model for each in pool)}" for name, pool in pools.items() if pool
    ]
    return f"{'; '.join(named)}; {llms.calls_at_once} calls at once"
