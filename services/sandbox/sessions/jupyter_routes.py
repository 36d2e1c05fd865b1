"""/run_jupyter."""

from fastapi import APIRouter, Request, Response

from services.contracts.errors import AuthenticationFailed, PayloadTooLarge, Unprocessable
from services.contracts.sandbox_jupyter import RunJupyterRequest, RunJupyterResponse
from services.core.web.auth import ToolPrincipal
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body, read_body
from services.sandbox.admission import QueueFull
from services.sandbox.answers import answer_to
from services.sandbox.context import Sandbox
from services.sandbox.sessions.examples import JUPYTER
from services.sandbox.sessions.jupyter import check_cells, run_jupyter

router = APIRouter(
    tags=["runs"],
    responses=documented_errors(AuthenticationFailed, PayloadTooLarge, Unprocessable, QueueFull),
)


@router.post(
    "/run_jupyter",
    summary="Run a notebook's cells",
    openapi_extra=documented_body(RunJupyterRequest, JUPYTER),
    response_class=Response,
    responses={200: {"model": RunJupyterResponse}},
)
async def jupyter(request: Request, sandbox: Sandbox, _principal: ToolPrincipal) -> Response:
    """Run cells in a Python kernel of their own; what is wrong with them gets status 200."""
    run = check_cells(await read_body(request, RunJupyterRequest), sandbox.settings)
    return await answer_to(request, run_jupyter(sandbox.notebooks, sandbox.runs.admission, run))
