"""``temper batch``: run a prompt template over the records of a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from pydantic import ValidationError

from services.contracts.batches.prompt_batches import (
    FORMATS,
    MAX_TOKENS,
    TEMPERATURE,
)
from services.contracts.validation import first_fault
from temper.cli.requests.flags import Flag, takes_request
from temper.stack.server_code import server_command, server_environment
from temper.submission.draft import Draft

if TYPE_CHECKING:
    from services.contracts.base import JsonObject
    from services.contracts.batches.prompt_batches import PromptEndpoint

app = typer.Typer(help="Prompt a model once for every record of a file.")

KEY_VARIABLE = "OPENAI_API_KEY"

ExistingFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]
BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL[,MODEL[,WEIGHT]]", help="An endpoint, up to and including /v1; repeatable."
    ),
]
ExtraFields = Annotated[
    list[str] | None,
    typer.Option(
        "--body", metavar="FIELD=JSON", help="Extra request field, such as seed=7; repeatable."
    ),
]
KeyVariables = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help=f"Variable with the API key; once, or per endpoint. Default: {KEY_VARIABLE}.",
    ),
]
Local = Annotated[
    bool,
    typer.Option("--local", help="Run --model, a folder or hub name, with vLLM on this machine."),
]


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise ValueError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _setting(text: str) -> tuple[str, Any]:
    name, value = _pair(text)
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise ValueError(f"{name}: {value!r} is not JSON") from error


def _file(text: str) -> str:
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"{text} is not a file")
    return str(path.absolute())


FLAGS: dict[str, Flag | str] = {
    "--prompts": Flag("records", read=_file, metavar="FILE"),
    "--delimiter": "delimiter",
    "--template": Flag("prompting.template", read=_file, metavar="FILE"),
    "-o --output": Flag("output", read=lambda text: str(Path(text).absolute()), metavar="FILE"),
    "--var": Flag(
        "prompting.variables",
        "Template variable from a field, as JSON text.",
        _pair,
        "NAME=FIELD",
        dict,
    ),
    "--system": "prompting.system_text",
    "--template-as-system": "prompting.template_as_system",
    "--label-path": Flag("parsing.path", metavar="PATH"),
    "--reasoning-end": Flag("parsing.reasoning_ends", read=str, combine=list),
    "--concurrency": "concurrency",
    "--timeout": "timeout_seconds",
    "--patience": "patience_seconds",
    "--engine": Flag(
        "engine.options", "Setting of the --local engine; repeatable.", _setting, "FIELD=JSON", dict
    ),
    "--devices": Flag(
        "engine.devices",
        "GPUs for the --local engine, by index or UUID; default: the least used.",
        lambda text: [each.strip() for each in text.split(",")],
        "GPU[,GPU]",
    ),
}


@app.callback(invoke_without_command=True)
@takes_request("services.contracts.batches.prompt_batches:PromptBatch", FLAGS)
def batch(
    context: typer.Context,
    draft: Draft,
    model: Annotated[
        str | None, typer.Option(help="Model for endpoints that name none, or for --local.")
    ] = None,
    base_url: BaseUrls = None,
    local: Local = False,
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature.")] = TEMPERATURE,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Maximum tokens of an answer.")
    ] = MAX_TOKENS,
    top_p: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Nucleus sampling: share of the probability mass to use."),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", min=1, help="Number of answers per record.")
    ] = None,
    body: ExtraFields = None,
    api_key_env: KeyVariables = None,
) -> None:
    """Prompt a model for every record of a file: at endpoints, or with vLLM on this machine.

    Runs in this process. Answers are saved next to the output as they arrive; run the same command
    again to resume an interrupted batch.
    """
    from services.contracts.batches.prompt_batches import REQUESTED, PromptBatch, rows_folder

    if context.invoked_subcommand is not None:
        return
    _check_files(draft)
    if local is bool(base_url):
        raise typer.BadParameter("give --base-url, or --model and --local")
    if not local and draft.get("engine") is not None:
        raise typer.BadParameter("--engine and --devices need --local")
    if draft.get("parsing") is not None and draft.get("parsing.path") is None:
        raise typer.BadParameter("--reasoning-end needs --label-path")
    sampling = {"temperature": temperature, "max_tokens": max_tokens, "top_p": top_p, "n": n}
    fields = {name: value for name, value in sampling.items() if value is not None}
    try:
        fields |= dict(map(_setting, body or []))
    except ValueError as error:
        raise typer.BadParameter(f"--body: {error}") from error
    fields |= draft.get("body") or {}
    _check_names(fields)
    draft.body["body"] = fields
    if local:
        _check_sampling(fields)
        _complete_engine(draft, model)
    else:
        endpoints = _endpoints(base_url or [], model, api_key_env or [])
        draft.body["endpoints"] = [each.model_dump() for each in endpoints]
    request = draft.request(PromptBatch)
    folder = rows_folder(request.output)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{REQUESTED}.{os.getpid()}"
    temporary.write_text(request.model_dump_json(), encoding="utf-8")
    temporary.replace(folder / REQUESTED)
    _exec_runner("run", str(folder))


def _check_files(draft: Draft) -> None:
    paths = [draft.get(path) for path in ("records", "output", "prompting.template")]
    if None in paths:
        raise typer.BadParameter("--prompts, --template and -o are required")
    records, output, template = map(Path, paths)
    for path in (records, output):
        if path.suffix.lower() not in FORMATS:
            raise typer.BadParameter(f"{path} is not one of {', '.join(FORMATS)}")
    for path in (records, template):
        if output.exists() and output.samefile(path):
            raise typer.BadParameter(f"-o {output} is the file {path} that is read")
    if draft.get("delimiter") is not None and records.suffix.lower() != ".csv":
        raise typer.BadParameter("--delimiter is one character, for --prompts *.csv")


@app.command()
def retry(output: Annotated[Path, typer.Argument(metavar="OUTPUT")]) -> None:
    """Retry the records of a batch that have no answer, and rewrite its output."""
    from services.contracts.batches.prompt_batches import REQUEST, rows_folder

    folder = rows_folder(output.absolute())
    if not (folder / REQUEST).exists():
        raise typer.BadParameter(f"{folder} holds no batch")
    _exec_runner("retry", str(folder))


@app.command()
def compare(first: ExistingFile, second: ExistingFile) -> None:
    """Show the rows of two outputs that differ; the exit code is 1 if any does."""
    _exec_runner("compare", str(first), str(second))


def _exec_runner(*arguments: str) -> NoReturn:
    """Replace this process, so that signals reach the one that does the work."""
    from services.contracts.batches.prompt_batches import MODULE

    sys.stdout.flush()
    sys.stderr.flush()
    line = server_command(MODULE, *arguments)
    os.execve(line[0], line, server_environment(os.environ))  # noqa: S606 - replaces this process


def _endpoints(
    base_urls: Sequence[str], model: str | None, key_variables: Sequence[str]
) -> list[PromptEndpoint]:
    if len(key_variables) not in {0, 1, len(base_urls)}:
        raise typer.BadParameter("--api-key-env: give it once, or once per --base-url")
    default = [KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else None]
    variables = list(key_variables or default)
    variables *= len(base_urls) if len(variables) == 1 else 1
    return [
        _endpoint(text, model, variable)
        for text, variable in zip(base_urls, variables, strict=True)
    ]


def _endpoint(text: str, model: str | None, variable: str | None) -> PromptEndpoint:
    from services.contracts.batches.prompt_batches import PromptEndpoint

    url, _, rest = text.partition(",")
    name, _, weight = rest.partition(",")
    try:
        return PromptEndpoint.model_validate(
            {
                "base_url": url,
                "model": name or model or "",
                "weight": weight or 1.0,
                "api_key_variable": variable,
            }
        )
    except ValidationError as error:
        fault = first_fault(error)
        missing = fault.location == ("model",)
        reason = "name its model, or pass --model" if missing else fault.sentence()
        raise typer.BadParameter(f"--base-url {text}: {reason}") from error


def _complete_engine(draft: Draft, model: str | None) -> None:
    """Add the model, the runtimes, and as many parallel parts as there are devices."""
    from temper.settings import load_settings

    if not model:
        raise typer.BadParameter("--local needs --model")
    if devices := draft.get("engine.devices"):
        draft.default("engine.options.tensor_parallel_size", len(devices))
    runtimes = Path(os.environ.get("TEMPER_RUNTIMES") or load_settings().home / "runtimes")
    draft.default("engine.model", model)
    draft.default("engine.runtimes", str(runtimes.expanduser().absolute()))


def _check_names(body: JsonObject) -> None:
    from services.contracts.errors import InvalidRequest
    from services.contracts.inference_body import check_names

    try:
        check_names(body)
    except InvalidRequest as error:
        raise typer.BadParameter(f"--body: {error.message}") from None


def _check_sampling(body: JsonObject) -> None:
    from services.contracts.batches.offline_engine import OfflineSampling

    try:
        OfflineSampling.model_validate(body)
    except ValidationError as error:
        raise typer.BadParameter(f"--body {first_fault(error).sentence()}") from error
