"""``temper keys``: keys for the gateway, which stores only their hashes."""

import hashlib
import secrets

import typer
from pydantic import BaseModel

from temper.cli.output import JsonOption, Output

app = typer.Typer(help="API keys.")


class NewKey(BaseModel):
    """A key to show to the gateway, and its hash for the gateway's settings."""

    key: str
    sha256: str


@app.callback()
def keys() -> None:
    """API keys."""


@app.command()
def new(as_json: JsonOption = False) -> None:
    """Make a key: clients get it as TEMPER_API_KEY, the gateway its hash."""
    out = Output(as_json)
    key = f"temper-{secrets.token_urlsafe(32)}"
    made = NewKey(key=key, sha256=hashlib.sha256(key.encode()).hexdigest())
    if as_json:
        out.document(made)
        return
    out.line(f"key     {made.key}")
    out.line(f"sha256  {made.sha256}")
    out.note("Give clients TEMPER_API_KEY=<key>; start the gateway with the hash in")
    out.note("TEMPER_API_KEY_HASHES. The key is shown only now.")
