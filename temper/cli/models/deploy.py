"""``temper deploy`` and ``temper undeploy``."""

from typing import Annotated

import typer

from temper.cli.gateway import connect
from temper.cli.jobs.jobs import print_job
from temper.cli.output import JsonOption, Output

ModelName = Annotated[str, typer.Argument(metavar="MODEL")]
KeepWarm = Annotated[
    bool,
    typer.Option("--keep-warm", help="Keep it running without requests, and when other jobs wait."),
]
IdleSeconds = Annotated[
    int | None, typer.Option(min=1, help="Stop it after this many seconds without a request.")
]
Gpus = Annotated[int | None, typer.Option(min=0, max=64, help="GPUs to spread the model over.")]
Priority = Annotated[int, typer.Option(min=-100, max=100, help="Higher runs first.")]


def deploy(
    model: ModelName,
    keep_warm: KeepWarm = False,
    idle_seconds: IdleSeconds = None,
    gpus: Gpus = None,
    priority: Priority = 0,
    as_json: JsonOption = False,
) -> None:
    """Start the engine of a model before its first request."""
    from services.contracts.serving import DeployModel

    out = Output(as_json)
    request = DeployModel(
        keep_warm=keep_warm, idle_seconds=idle_seconds, gpus=gpus, priority=priority
    )
    with connect() as client:
        serving = client.servings.deploy(model, request)
    print_job(out, serving)
    if not as_json:
        out.note(f"chat:    temper chat {model}", "dim")
        out.note(f"follow:  temper logs -f {serving.id}", "dim")


def undeploy(model: ModelName, as_json: JsonOption = False) -> None:
    """Stop a model's engine, which its adapters share."""
    out = Output(as_json)
    with connect() as client:
        ended = client.servings.undeploy(model)
    if as_json:
        out.document(ended)
    elif ended.servings:
        out.line(f"{', '.join(ended.servings)} is stopping")
    else:
        out.line(f"{model} is not deployed")
