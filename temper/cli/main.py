"""The ``temper`` command."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from typer.exceptions import TyperException

from temper.cli import (
    alerts,
    attempts,
    audit,
    batch,
    browser,
    campaign,
    chat,
    check,
    datasets,
    demo,
    deploy,
    evals,
    evaluate,
    files,
    index,
    jobs,
    keys,
    metrics,
    models,
    notes,
    serve,
    submit,
    tail,
    traj,
    up,
)
from temper.cli.exit_codes import ExitCode
from temper.client.errors import ApiError, ClientError, Unreachable, WaitTimedOut
from temper.stack.errors import StackError

EPILOG = """
Exit codes: 0 the command or the job succeeded; 1 it failed; 2 invalid usage; 3 the job was
cancelled; 124 timed out; 130 Ctrl-C (a followed job keeps running).
"""

app = typer.Typer(
    epilog=EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"temper {version('temper')}\n")
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


app.command("up")(up.up)
app.command("down")(up.down)
app.command("open")(browser.open_dashboard)
app.command("serve")(serve.serve)
app.command("submit")(submit.submit)
app.command("chat")(chat.chat)
app.command("check")(check.check)
app.command("deploy")(deploy.deploy)
app.command("undeploy")(deploy.undeploy)
app.command("ps")(jobs.ps)
app.command("show")(jobs.show)
app.command("traj")(traj.traj)
app.command("attempts")(attempts.attempts)
app.command("notes")(notes.notes)
app.command("audit")(audit.audit)
app.command("alerts")(alerts.alerts)
app.command("logs")(jobs.logs)
app.command("tail")(tail.tail)
app.command("cancel")(jobs.cancel)
app.command("pause")(jobs.pause)
app.command("resume")(jobs.resume)
app.command("retry")(jobs.retry)
app.command("delete")(jobs.delete)
app.command("wait")(jobs.wait)
app.command("eval")(evaluate.evaluate)
app.command("compare")(evals.compare)
app.add_typer(batch.app, name="batch")
app.add_typer(demo.app, name="demo")
app.add_typer(models.app, name="models")
app.add_typer(campaign.app, name="campaign")
app.add_typer(datasets.app, name="datasets")
app.add_typer(index.app, name="index")
app.add_typer(files.app, name="files")
app.add_typer(metrics.app, name="metrics")
app.add_typer(evals.app, name="evals")
app.add_typer(keys.app, name="keys")
app.add_typer(alerts.webhooks, name="webhooks")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = app(given, prog_name="temper", standalone_mode=False)
    except (TyperException, ClientError, OSError) as error:
        return _report(error)
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
