"""The code of the services: how commands that run it find it.

A checkout has it beside this package. The installed package has it in a folder of its own, which
only the processes of services have on their path, and whose dependencies are the extra "server".
"""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from temper.client.errors import ClientError

INSTALLED = Path(__file__).resolve().parents[1] / "_server"
CHECKOUT = Path(__file__).resolve().parents[2]
NEEDED = ("fastapi", "celery", "sqlalchemy", "tantivy")
"""Packages of the extra, by which an installation without it is recognized."""


class ServerMissing(ClientError):
    """The code of the services, or what it needs, is not installed."""

    code = "server_missing"


def server_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the services with this Python.

    Run it in a `server_environment`. Raises `ServerMissing` without its code, or without the
    packages that it needs.
    """
    check_server_code(module)
    if any(find_spec(name) is None for name in NEEDED):
        raise ServerMissing("the services are not installed: pip install 'temper[server]'")
    # -P: do not import a folder named services from the working directory.
    return [sys.executable, "-P", "-m", module, *arguments]


def check_server_code(module: str) -> None:
    """Raise `ServerMissing` if this installation has only what asks a gateway, as Docker's image of
    the command line has."""
    folder = (INSTALLED if INSTALLED.is_dir() else CHECKOUT).joinpath(*module.split("."))
    if not folder.is_dir() and not folder.with_suffix(".py").is_file():
        raise ServerMissing(
            f"this command runs the platform's own code ({module}), which is not in this "
            "installation: it only asks a gateway, as Docker's image of the command line does"
        )


def server_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return ``variables`` with the code of the services on Python's path."""
    if not INSTALLED.is_dir():
        return dict(variables)
    others = variables.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, (str(INSTALLED), others)))}
