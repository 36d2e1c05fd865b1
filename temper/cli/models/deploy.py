"""``temper deploy`` and ``temper undeploy``."""

from typing import Annotated

import typer

from temper.cli.gateway import connect
from temper.cli.jobs.jobs import print_job
from temper.cli.output import JsonOption, Output
from temper.cli.requests.flags import takes_request
from temper.submission.draft import Draft

ModelName = Annotated[str, typer.Argument(metavar="MODEL")]
FLAGS = {
    "--keep-warm": "keep_warm",
    "--idle-seconds": "idle_seconds",
    "--gpus": "gpus",
    "--priority": "priority",
}


@takes_request("services.contracts.serving:DeployModel", FLAGS)
def deploy(model: ModelName, draft: Draft, as_json: JsonOption = False) -> None:
    """Start the engine of a model before its first request."""
    from services.contracts.serving import DeployModel

    out = Output(as_json)
    request = draft.request(DeployModel)
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
        out.line(f"{model} is not running; a request starts it without options")
