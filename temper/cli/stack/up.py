"""``temper up`` and ``temper down``: the local stack."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from temper.cli.exit_codes import ExitCode
from temper.cli.gateway import default_port
from temper.cli.output import JsonOption, Output
from temper.cli.units import duration
from temper.stack.services import Address, Service, check_installed
from temper.stack.signals import stop_requested

if TYPE_CHECKING:
    from temper.settings import ClientSettings
    from temper.stack.child import Event
    from temper.stack.state import RunningService, StackState

Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port of the gateway; 0: any free port.  [8080]"),
]
SandboxPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Port of the sandbox.  [8081, or any free port if it is in use or --port is 0]",
    ),
]
RetrievalPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Port of the retrieval service.  [8082, or any free port as for the sandbox]",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return once the stack is ready.")]
Timeout = Annotated[
    float, typer.Option(min=1.0, max=3600.0, help="Seconds to wait until the stack is ready.")
]


class Stopped(BaseModel):
    """The services that ``temper down`` stopped."""

    ended: list[str]


def up(
    port: Port = None,
    sandbox_port: SandboxPort = None,
    retrieval_port: RetrievalPort = None,
    detach: Detach = False,
    timeout: Timeout = 90.0,
    as_json: JsonOption = False,
) -> None:
    """Start the gateway, workers and tool services on this machine; Ctrl-C stops them all."""
    from temper.settings import load_settings
    from temper.stack.addresses import addresses_of

    check_installed()
    out = Output(as_json)
    settings = load_settings()
    ports = {
        Service.API: default_port(settings) if port is None else port,
        Service.SANDBOX: sandbox_port,
        Service.RETRIEVAL: retrieval_port,
    }
    with stop_requested() as stop:
        if detach:
            _up_detached(out, settings, ports, timeout, stop)
        else:
            _up_here(out, settings, addresses_of(settings, ports), timeout, stop)


def down(as_json: JsonOption = False) -> None:
    """Stop the local stack, or what is left of a killed one."""
    from temper.settings import load_settings
    from temper.stack.detached import end_stack

    check_installed()
    out = Output(as_json)
    settings = load_settings()
    stopped = end_stack(settings.home, settings.grace_seconds)
    if as_json:
        out.document(Stopped(ended=stopped))
    else:
        out.line(f"stopped {', '.join(stopped)}" if stopped else "no stack is running")


def _up_here(
    out: Output,
    settings: ClientSettings,
    addresses: Mapping[Service, Address],
    timeout: float,
    stop: threading.Event,
) -> None:
    from temper.client import Temper
    from temper.stack.addresses import access_of
    from temper.stack.supervisor import Stack

    begun = time.monotonic()
    access = access_of(settings, addresses)
    with (
        Temper(addresses[Service.API].url, access.api_key) as client,
        Stack(settings.home, addresses, client, settings.grace_seconds, access.variables) as stack,
    ):
        if stack.leftovers:
            out.note(f"stopped services left by a killed stack: {', '.join(stack.leftovers)}")
        out.note(f"starting the stack in {settings.home}")
        stack.start()
        try:
            if stack.wait_ready(stop, timeout, lambda event: _report(out, event)):
                _print(out, stack.state, time.monotonic() - begun)
                out.note("Ctrl-C stops it")
                stack.watch(stop, lambda event: _report(out, event))
        finally:
            out.note("stopping the stack, workers first")
    out.note("the stack has stopped")


def _report(out: Output, event: Event) -> None:
    from services.contracts.stack import ServiceStatus
    from temper.stack.child import Exited, Restarted

    service = event.service
    if isinstance(event, Restarted):
        out.note(f"{service.name.value} was restarted as process {service.process.pid}")
    elif not isinstance(event, Exited):
        out.note(f"{service.name.value} has recovered")
    elif service.condition.status is ServiceStatus.FAILED:
        out.note(_without(service), "red")
    else:
        out.note(f"{event.cause.message}; restarting in {event.restart_in:g} s", "red")
    if isinstance(event, Exited):
        for line in event.cause.last_lines:
            out.note(f"  {line}")


def _up_detached(
    out: Output,
    settings: ClientSettings,
    ports: Mapping[Service, int | None],
    timeout: float,
    stop: threading.Event,
) -> None:
    from temper.stack.detached import start_detached
    from temper.stack.state import StackFile, StackStatus

    running = StackFile(settings.home).running()
    if running is not None and running.status is StackStatus.READY:
        out.note("the stack is already running")
        _print(out, running, None)
        return
    begun = time.monotonic()
    out.note(f"starting the stack in {settings.home}")
    state = start_detached(settings.home, ports, timeout, settings.grace_seconds, stop)
    if state is None:
        raise typer.Exit(ExitCode.INTERRUPTED)
    _print(out, state, time.monotonic() - begun)
    out.note("temper down stops it")


def _print(out: Output, state: StackState, seconds: float | None) -> None:
    if out.as_json:
        out.document(state)
        return
    out.line(f"ready at {state.url}" + ("" if seconds is None else f" after {duration(seconds)}"))
    out.line(f"dashboard at {state.url}/ui")
    for service in state.services:
        if service.condition.retry_at is not None:
            continue
        where = f"  {service.url}" if service.url and service.url != state.url else ""
        name = service.name.value.ljust(10)
        out.line(f"  {name} process {service.process.pid}  {service.log}{where}")
    for service in state.disturbed:
        out.note(_without(service), "red")


def _without(service: RunningService) -> str:
    return (
        f"running without the {service.name.value}: {service.condition.reason} "
        f"(log: {service.log}); tried again with growing delays, see temper ps"
    )
