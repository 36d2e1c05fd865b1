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
    CONCURRENCY,
    FORMATS,
    MAX_TOKENS,
    PATIENCE_SECONDS,
    SYSTEM_TEXT,
    TEMPERATURE,
    TIMEOUT_SECONDS,
)
from temper.stack.server_code import server_command, server_environment

if TYPE_CHECKING:
    from services.contracts.base import JsonObject
    from services.contracts.batches.prompt_batches import OwnEngine, PromptEndpoint

app = typer.Typer(help="Prompt a model once for every record of a file.")

KEY_VARIABLE = "OPENAI_API_KEY"

ExistingFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]
BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL[,MODEL[,WEIGHT]]", help="An endpoint, up to and including /v1; repeatable."
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help=f"The records: {', '.join(FORMATS)}."),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Delimiter of a CSV file of records; default: detected."),
]
TemplateFile = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="YAML with system_prompt or messages."),
]
Target = Annotated[
    Path | None, typer.Option("-o", "--output", help=f"The output: {', '.join(FORMATS)}.")
]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--var", metavar="NAME=FIELD", help="Template variable from a field, as JSON text."
    ),
]
AsSystem = Annotated[
    bool, typer.Option("--template-as-system", help="Send the template as the system message.")
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
LabelPath = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Parse JSON from answers; the prediction is at this path."),
]
Local = Annotated[
    bool,
    typer.Option("--local", help="Run --model, a folder or hub name, with vLLM on this machine."),
]
EngineOptions = Annotated[
    list[str] | None,
    typer.Option("--engine", metavar="FIELD=JSON", help="A setting of the --local engine."),
]
Devices = Annotated[
    str | None,
    typer.Option(
        metavar="GPU[,GPU]",
        help="GPUs for the --local engine, by index or UUID; default: the least used.",
    ),
]
ReasoningEnds = Annotated[
    list[str] | None, typer.Option("--reasoning-end", help="Tag that ends a model's reasoning.")
]


@app.callback(invoke_without_command=True)
def batch(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Option(help="Model for endpoints that name none, or for --local.")
    ] = None,
    base_url: BaseUrls = None,
    local: Local = False,
    prompts: Prompts = None,
    delimiter: Delimiter = None,
    template: TemplateFile = None,
    output: Target = None,
    var: Variables = None,
    system: Annotated[str, typer.Option(help="The system message.")] = SYSTEM_TEXT,
    template_as_system: AsSystem = False,
    temperature: Annotated[float, typer.Option(min=0)] = TEMPERATURE,
    max_tokens: Annotated[int, typer.Option(min=1)] = MAX_TOKENS,
    top_p: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    n: Annotated[int | None, typer.Option("-n", min=1, help="Answers per record.")] = None,
    body: ExtraFields = None,
    label_path: LabelPath = None,
    reasoning_end: ReasoningEnds = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=4096, help="Maximum number of requests in flight.")
    ] = CONCURRENCY,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds per attempt.")] = TIMEOUT_SECONDS,
    patience: Annotated[
        float,
        typer.Option(min=1, help="Give up after this many seconds without a usable endpoint."),
    ] = PATIENCE_SECONDS,
    api_key_env: KeyVariables = None,
    engine: EngineOptions = None,
    devices: Devices = None,
) -> None:
    """Prompt a model for every record of a file: at endpoints, or with vLLM on this machine.

    Runs in this process. Answers are saved next to the output as they arrive; run the same command
    again to resume an interrupted batch.
    """
    from services.contracts.batches.prompt_batches import (
        REQUESTED,
        Parsing,
        PromptBatch,
        Prompting,
        rows_folder,
    )

    if context.invoked_subcommand is not None:
        return
    if prompts is None or template is None or output is None:
        raise typer.BadParameter("--prompts, --template and -o are required")
    if local is bool(base_url):
        raise typer.BadParameter("give --base-url, or --model and --local")
    if not local and (engine or devices):
        raise typer.BadParameter("--engine and --devices need --local")
    for path in (prompts, output):
        if path.suffix.lower() not in FORMATS:
            raise typer.BadParameter(f"{path} is not one of {', '.join(FORMATS)}")
    for path in (prompts, template):
        if output.exists() and output.samefile(path):
            raise typer.BadParameter(f"-o {output} is the file {path} that is read")
    if delimiter is not None and (prompts.suffix.lower() != ".csv" or len(delimiter) != 1):
        raise typer.BadParameter("--delimiter is one character, for --prompts *.csv")
    sampling: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    sampling |= {"top_p": top_p} if top_p is not None else {}
    sampling |= {"n": n} if n is not None else {}
    fields = {**sampling, **dict(_field(each, "--body") for each in body or [])}
    _check_names(fields)
    if local:
        _check_sampling(fields)
    variables = dict(_pair(each, "--var") for each in var or [])
    if label_path is None and reasoning_end:
        raise typer.BadParameter("--reasoning-end needs --label-path")
    request = PromptBatch(
        records=prompts.absolute(),
        delimiter=delimiter,
        output=output.absolute(),
        prompting=Prompting(
            template=template.absolute(),
            variables=variables,
            system_text=system,
            template_as_system=template_as_system,
        ),
        endpoints=_endpoints(base_url or [], model, api_key_env or []),
        engine=_engine(model, engine or [], devices) if local else None,
        body=fields,
        parsing=Parsing(path=label_path, reasoning_ends=reasoning_end)
        if label_path is not None
        else None,
        concurrency=concurrency,
        timeout_seconds=timeout,
        patience_seconds=patience,
    )
    folder = rows_folder(request.output)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{REQUESTED}.{os.getpid()}"
    temporary.write_text(request.model_dump_json(), encoding="utf-8")
    temporary.replace(folder / REQUESTED)
    _exec_runner("run", str(folder))


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
    os.execve(line[0], line, server_environment(os.environ))  # noqa: S606


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
        first = error.errors()[0]
        missing = first["loc"] == ("model",)
        reason = (
            "name its model, or pass --model" if missing else f"{first['loc'][0]}: {first['msg']}"
        )
        raise typer.BadParameter(f"--base-url {text}: {reason}") from error


def _pair(text: str, option: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise typer.BadParameter(f"{option}: {text!r} is not of the form NAME=VALUE")
    return name, value


def _field(text: str, option: str) -> tuple[str, Any]:
    name, value = _pair(text, option)
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"{option} {name}: {value!r} is not JSON") from error


def _engine(model: str | None, options: Sequence[str], devices: str | None) -> OwnEngine:
    from services.contracts.batches.offline_engine import OfflineOptions
    from services.contracts.batches.prompt_batches import OwnEngine
    from temper.settings import load_settings

    if not model:
        raise typer.BadParameter("--local needs --model")
    wanted = [each.strip() for each in devices.split(",")] if devices else []
    fields = dict(_field(each, "--engine") for each in options)
    if wanted:
        fields.setdefault("tensor_parallel_size", len(wanted))
    home = load_settings().home
    runtimes = Path(os.environ.get("TEMPER_RUNTIMES") or home / "runtimes").expanduser()
    try:
        settings = OfflineOptions.model_validate(fields)
    except ValidationError as error:
        raise typer.BadParameter(f"--engine {_reason(error)}") from error
    return OwnEngine(model=model, runtimes=runtimes.absolute(), devices=wanted, options=settings)


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
        raise typer.BadParameter(f"--body {_reason(error)}") from error


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
