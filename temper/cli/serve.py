"""``temper serve``: one service in the foreground."""

import os
from typing import Annotated

import typer

from temper.settings import load_settings
from temper.stack.services import PORT_OPTIONS, Service, command, environment

ServiceArgument = Annotated[
    Service,
    typer.Argument(
        help="api is the gateway with its dispatcher, sandbox runs code, retrieval searches "
        "passages; the others are workers."
    ),
]
HostOption = Annotated[str | None, typer.Option(help="Where it listens: 127.0.0.1.")]
PortOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        help="Port of the gateway: 8080, of the sandbox: 8081, of the retrieval service: 8082.",
    ),
]
IndexOption = Annotated[
    str | None,
    typer.Option(help="What the retrieval service searches: an index's name, or its folder."),
]
LogJsonOption = Annotated[bool, typer.Option("--json", help="Log one JSON object a line.")]


def serve(
    service: ServiceArgument,
    host: HostOption = None,
    port: PortOption = None,
    index: IndexOption = None,
    as_json: LogJsonOption = False,
) -> None:
    """Run one service until it is ended; its settings are TEMPER_* variables."""
    given = {"--host": host, "--port": port}
    arguments = [
        part for name, value in given.items() if value is not None for part in (name, str(value))
    ]
    if arguments and service not in PORT_OPTIONS:
        raise typer.BadParameter(
            f"{service.value} listens nowhere: --host and --port are for the api, the sandbox and "
            "the retrieval service"
        )
    if index is not None and service is not Service.RETRIEVAL:
        raise typer.BadParameter(f"{service.value} searches nothing: --index is for retrieval")
    variables = environment(service, str(load_settings().home))
    if index is not None:
        variables["TEMPER_RETRIEVAL_INDEX"] = index
    if as_json:
        variables["TEMPER_LOG_JSON"] = "true"
    line = command(service, arguments)
    os.execve(line[0], line, variables)  # noqa: S606  (our own argument list, no shell)
