"""The ``temper`` command."""

import gc
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from services.contracts.version import VERSION
from temper.cli.commands import COMMANDS
from temper.cli.exit_codes import ExitCode
from temper.cli.lazy import lazy_group
from temper.client.errors import ApiError, ClientError, Unreachable, WaitTimedOut
from temper.stack.errors import StackError

EPILOG = """
Exit codes: 0 the command or the job succeeded; 1 it failed; 2 invalid usage; 3 the job was
cancelled; 124 timed out; 130 Ctrl-C (a followed job keeps running).
"""

NEW_OBJECTS = 100_000
"""Containers made between two looks for garbage: those of imported modules all stay."""

DATA_PACKAGES = {"fsspec", "huggingface_hub", "pyarrow"}
"""What the extra "data" adds to the packages of the client."""

# With rich installed httpx imports a command line of its own, for two fifths of the time it takes.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # as importlib documents

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    epilog=EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # drawing help in boxes takes longer than everything else
    context_settings={"max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"temper {VERSION}\n")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Temper: post-train language models on your own machines."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one line on stderr."""
    gc.set_threshold(NEW_OBJECTS)
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = app(given, prog_name="temper", standalone_mode=False)
    except (TyperException, ClientError, OSError) as error:
        return _report(error)
    except ModuleNotFoundError as error:
        if error.name not in DATA_PACKAGES:
            raise
        return _report(ClientError(f"{error.name} is missing: pip install 'temper[data]'"))
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    return code if isinstance(code, int) else ExitCode.OK


def describe(error: ClientError) -> str:
    """Return an error as one line, with its code and request id."""
    marks = [error.code]
    if isinstance(error, ApiError):
        if error.param and error.param not in error.message:
            marks.append(f"param {error.param}")
        marks += [f"request {error.request_id}"] if error.request_id else []
    hint = "; temper up starts a local stack" if isinstance(error, Unreachable) else ""
    return f"{error.message}{hint} ({', '.join(marks)})"


def _report(error: TyperException | ClientError | OSError) -> int:
    code, message = _explained(error)
    sys.stderr.write(f"temper: error: {' '.join(message.split())}\n")
    if isinstance(error, StackError):
        sys.stderr.writelines(f"  {line}\n" for line in error.last_lines)
    return code


def _explained(error: TyperException | ClientError | OSError) -> tuple[int, str]:
    match error:
        case TyperException():
            return error.exit_code, error.format_message()
        case WaitTimedOut():
            return ExitCode.TIMED_OUT, describe(error)
        case ClientError():
            return ExitCode.FAILED, describe(error)
    where = f": {error.filename}" if error.filename else ""
    return ExitCode.FAILED, f"{error.strerror or error}{where}"
