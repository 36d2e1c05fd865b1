"""/run_code, and under /v1 its streaming and its many-inputs variants."""

from fastapi import APIRouter, Request, Response

from services.contracts.errors import AuthenticationFailed, PayloadTooLarge, Unprocessable
from services.contracts.sandbox import RunCodeRequest, RunCodeResponse
from services.contracts.sandbox_cases import RunCasesRequest, RunCasesResponse
from services.core.web.auth import DirectToolRoute, ToolPrincipal
from services.core.web.disconnect import answer_to
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body, read_body
from services.sandbox.admission import QueueFull
from services.sandbox.context import Sandbox
from services.sandbox.examples import CASES, PROGRAM
from services.sandbox.runs.cases import check_cases, run_cases
from services.sandbox.runs.service import CodeRun, Runs
from services.sandbox.runs.stream import STREAM_ANSWER, run_stream

router = APIRouter(
    tags=["runs"],
    responses=documented_errors(AuthenticationFailed, PayloadTooLarge, Unprocessable, QueueFull),
    default_response_class=Response,
    route_class=DirectToolRoute,
)


@router.post(
    "/run_code",
    summary="Run code",
    openapi_extra=documented_body(RunCodeRequest, PROGRAM),
    responses={200: {"model": RunCodeResponse}},
)
async def run_code(request: Request, sandbox: Sandbox, _principal: ToolPrincipal) -> Response:
    """Compile and run a program. Errors in the code are reported with HTTP status 200."""
    run = sandbox.runs.check(await read_body(request, RunCodeRequest))
    return await answer_to(request, _run(sandbox.runs, run))


@router.post(
    "/v1/run_code/stream",
    summary="Run code and follow its output",
    openapi_extra=documented_body(RunCodeRequest, PROGRAM),
    responses=STREAM_ANSWER,
)
async def stream_code(request: Request, sandbox: Sandbox, _principal: ToolPrincipal) -> Response:
    """Like /run_code, but stream the output as server-sent events."""
    run = sandbox.runs.check(await read_body(request, RunCodeRequest))
    return run_stream(sandbox.runs, run)


@router.post(
    "/v1/run_cases",
    summary="Run code with many inputs",
    openapi_extra=documented_body(RunCasesRequest, CASES),
    responses={200: {"model": RunCasesResponse}},
)
async def cases(request: Request, sandbox: Sandbox, _principal: ToolPrincipal) -> Response:
    """Compile once, run with every input, and compare the output with what is expected."""
    asked = check_cases(sandbox.runs, await read_body(request, RunCasesRequest))
    return await answer_to(request, run_cases(sandbox.runs, asked))


async def _run(runs: Runs, run: CodeRun) -> RunCodeResponse:
    async with runs.permit(run.program.queue_timeout):
        return await runs.execute(run)
