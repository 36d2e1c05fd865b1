"""The tool services that the gateway knows."""

from services.api.forwards.examples import CASES, CELLS, PROGRAM, QUERIES, SEARCH
from services.api.forwards.service import ToolRoute, ToolService
from services.api.settings import ApiSettings
from services.contracts.retrieval import (
    RetrieveRequest,
    RetrieveResponse,
    SearchRequest,
    SearchResponse,
)
from services.contracts.sandbox import RunCodeRequest, RunCodeResponse
from services.contracts.sandbox_cases import RunCasesRequest, RunCasesResponse
from services.contracts.sandbox_jupyter import RunJupyterRequest, RunJupyterResponse


def tool_services(settings: ApiSettings) -> tuple[ToolService, ...]:
    """Every tool service, as the settings place it."""
    return (sandbox(settings), retrieval(settings))


def sandbox(settings: ApiSettings) -> ToolService:
    """The code sandbox."""
    key = settings.sandbox_api_key
    return ToolService(
        name="sandbox",
        url=settings.sandbox_url,
        api_key=key.get_secret_value() if key is not None else None,
        start="`temper serve sandbox` starts it, TEMPER_SANDBOX_URL says where it is",
        routes=(
            ToolRoute("/run_code", "Run code", RunCodeRequest, RunCodeResponse, PROGRAM),
            ToolRoute(
                "/run_jupyter",
                "Run the cells of a notebook",
                RunJupyterRequest,
                RunJupyterResponse,
                CELLS,
            ),
            ToolRoute(
                "/v1/run_cases",
                "Run a program on many inputs",
                RunCasesRequest,
                RunCasesResponse,
                CASES,
            ),
        ),
        body_bytes=settings.sandbox_max_body_bytes,
        seconds=settings.tool_call_seconds,
        calls=settings.max_tool_calls,
    )


def retrieval(settings: ApiSettings) -> ToolService:
    """The retrieval service."""
    key = settings.retrieval_api_key
    return ToolService(
        name="retrieval",
        url=settings.retrieval_url,
        api_key=key.get_secret_value() if key is not None else None,
        start="`temper serve retrieval` starts it, TEMPER_RETRIEVAL_URL says where it is",
        routes=(
            ToolRoute("/retrieve", "Search passages", RetrieveRequest, RetrieveResponse, QUERIES),
            ToolRoute("/v1/search", "Search an index", SearchRequest, SearchResponse, SEARCH),
        ),
        body_bytes=settings.retrieval_max_body_bytes,
        seconds=settings.tool_call_seconds,
        calls=settings.max_tool_calls,
    )
