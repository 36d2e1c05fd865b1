"""``temper open``: the dashboard in a browser."""

import webbrowser

from temper.cli.gateway import gateway_url
from temper.cli.output import Output
from temper.settings import load_settings


def open_dashboard() -> None:
    """Open the dashboard of the gateway in a browser, and print its address."""
    out = Output(as_json=False)
    address = f"{gateway_url(load_settings()).rstrip('/')}/ui"
    out.line(address)
    if not webbrowser.open(address):
        out.note("no browser could be started here")
