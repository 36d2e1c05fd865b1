"""``temper keys``: API keys. The gateway stores only their hashes."""

import hashlib
import secrets

import typer
from pydantic import BaseModel

from temper.cli.output import JsonOption, Output

app = typer.Typer(help="API keys.")


class NewKey(BaseModel):
    """An API key for clients, and its hash for the gateway's settings."""

    key: str
    sha256: str


@app.callback()
def keys() -> None:
    """API keys."""


@app.command()
def new(as_json: JsonOption = False) -> None:
    """Create a key. Clients send the key; the gateway is configured with its hash."""
    out = Output(as_json)
    key = f"temper-{secrets.token_urlsafe(32)}"
    created = NewKey(key=key, sha256=hashlib.sha256(key.encode()).hexdigest())
    if as_json:
        out.document(created)
        return
    out.line(f"key     {created.key}")
    out.line(f"sha256  {created.sha256}")
    out.note("Give clients TEMPER_API_KEY=<key>; start the gateway with the hash in")
    out.note("TEMPER_API_KEY_HASHES. The key is not stored anywhere.")
