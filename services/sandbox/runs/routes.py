"""/run_code, and under /v1 its streaming and its many-inputs variants."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from fastapi import APIRouter, Request, Response

from services.contracts.errors import AuthenticationFailed, PayloadTooLarge, Unprocessable
from services.contracts.sandbox.cases import RunCasesRequest, RunCasesResponse
from services.contracts.sandbox.programs import CodeRequest, RunCodeRequest, RunCodeResponse
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
from services.sandbox.wire import in_thread_if_large

Body = TypeVar("Body", bound=CodeRequest)
Checked = TypeVar("Checked")

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
    run = await _checked(request, RunCodeRequest, sandbox.runs.check)
    return await answer_to(request, _run(sandbox.runs, run))


@router.post(
    "/v1/run_code/stream",
    summary="Run code and follow its output",
    openapi_extra=documented_body(RunCodeRequest, PROGRAM),
    responses=STREAM_ANSWER,
)
async def stream_code(request: Request, sandbox: Sandbox, _principal: ToolPrincipal) -> Response:
    """Like /run_code, but stream the output as server-sent events."""
    run = await _checked(request, RunCodeRequest, sandbox.runs.check)
    return run_stream(sandbox.runs, run)


@router.post(
    "/v1/run_cases",
    summary="Run code with many inputs",
    openapi_extra=documented_body(RunCasesRequest, CASES),
    responses={200: {"model": RunCasesResponse}},
)
async def cases(request: Request, sandbox: Sandbox, _principal: ToolPrincipal) -> Response:
    """Compile once, run with every input, and compare the output with what is expected."""
    run = await _checked(request, RunCasesRequest, partial(check_cases, sandbox.runs))
    return await answer_to(request, run_cases(sandbox.runs, run))


async def _run(runs: Runs, run: CodeRun) -> RunCodeResponse:
    async with runs.permit(run.program, run.program.queue_timeout):
        return await runs.execute(run)


async def _checked(
    request: Request, model: type[Body], check: Callable[[Body], Checked]
) -> Checked:
    body = await read_body(request, model)
    size = sum(len(content or "") for content in body.files.values())
    return await in_thread_if_large(lambda: check(body), size)
