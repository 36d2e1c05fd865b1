"""``temper serve``: run one service in the foreground."""

import os
from typing import Annotated

import typer

from temper.stack.services import PORT_OPTIONS, Service, command, environment

ServiceArgument = Annotated[
    Service,
    typer.Argument(
        help="api: the gateway with its dispatcher; sandbox: runs code; retrieval: searches "
        "passages; the others are workers."
    ),
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on; default: 127.0.0.1.")]
PortOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        help="Port; default: 8080 for api, 8081 for sandbox, 8082 for retrieval.",
    ),
]
IndexOption = Annotated[
    str | None,
    typer.Option(help="Default index of the retrieval service: a name or a folder."),
]
LogJsonOption = Annotated[bool, typer.Option("--json", help="Log one JSON object per line.")]


def serve(
    service: ServiceArgument,
    host: HostOption = None,
    port: PortOption = None,
    index: IndexOption = None,
    as_json: LogJsonOption = False,
) -> None:
    """Run one service until it is stopped; configure it with TEMPER_* variables."""
    from temper.settings import load_settings

    given = {"--host": host, "--port": port}
    arguments = [
        part for name, value in given.items() if value is not None for part in (name, str(value))
    ]
    if arguments and service not in PORT_OPTIONS:
        raise typer.BadParameter(
            f"{service.value} does not listen: --host and --port are for api, sandbox and retrieval"
        )
    if index is not None and service is not Service.RETRIEVAL:
        raise typer.BadParameter(f"--index is for retrieval, not for {service.value}")
    variables = environment(service, str(load_settings().home))
    if index is not None:
        variables["TEMPER_RETRIEVAL_INDEX"] = index
    if as_json:
        variables["TEMPER_LOG_JSON"] = "true"
    line = command(service, arguments)
    os.execve(line[0], line, variables)  # noqa: S606  (argument list, no shell)
