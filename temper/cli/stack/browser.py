"""``temper open``: the dashboard in a browser."""

import os
import subprocess
import time
import webbrowser
from typing import Annotated

import typer

from temper.cli.gateway import gateway_url
from temper.cli.output import Output
from temper.client.errors import ClientError
from temper.stack.addresses import any_free
from temper.stack.server_code import server_command, server_environment

START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1

DemoOption = Annotated[
    bool, typer.Option("--demo", help="Show recorded runs, without a stack, until Ctrl-C.")
]


class DemoFailed(ClientError):
    """The recorded runs could not be served."""

    code = "demo_failed"


def open_dashboard(demo: DemoOption = False) -> None:
    """Open the gateway's dashboard in a browser, and print its URL."""
    from temper.settings import load_settings

    out = Output(as_json=False)
    if demo:
        _show_recording(out)
    else:
        _open(f"{gateway_url(load_settings()).rstrip('/')}/ui", out)


def _open(address: str, out: Output) -> None:
    out.line(address)
    if not webbrowser.open(address):
        out.note("could not start a browser")


def _show_recording(out: Output) -> None:
    port = any_free()
    command = server_command("services.api.dashboard.demo", f"--port={port}")
    address = f"http://127.0.0.1:{port}/ui"
    with subprocess.Popen(command, env=server_environment(os.environ)) as server:
        try:
            _wait_until_ready(server, address)
            _open(address, out)
            server.wait()
        except KeyboardInterrupt:
            pass
        finally:
            server.terminate()
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_until_ready(server: "subprocess.Popen[bytes]", address: str) -> None:
    import httpx

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            httpx.get(address, timeout=START_SECONDS).raise_for_status()
        except httpx.HTTPError:
            time.sleep(POLL_SECONDS)
        else:
            return
    raise DemoFailed("the recorded runs could not be served; is the package complete?")
