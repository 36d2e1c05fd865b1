"""``temper open``: the dashboard in a browser."""

import webbrowser

from temper.cli.gateway import gateway_url
from temper.cli.output import Output


def open_dashboard() -> None:
    """Open the gateway's dashboard in a browser, and print its URL."""
    from temper.settings import load_settings

    out = Output(as_json=False)
    address = f"{gateway_url(load_settings()).rstrip('/')}/ui"
    out.line(address)
    if not webbrowser.open(address):
        out.note("could not start a browser")
