"""/v1/chat/completions, /v1/completions and /v1/embeddings, deploying models, and /v1/servings."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response

from services.api.context import Gateway
from services.api.examples import CHAT, COMPLETION, DEPLOYMENT, EMBEDDING
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, kind_router
from services.api.serving.request_body import InferenceBody
from services.api.serving.service import deploy_model, serving_view, undeploy_model
from services.api.serving.usage import RETENTION_DAYS, usage_of
from services.contracts.errors import (
    AuthenticationFailed,
    BadGateway,
    Conflict,
    GatewayTimeout,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    RateLimited,
    Unavailable,
)
from services.contracts.jobs import JobKind
from services.contracts.serving import DeployModel, Serving, Undeployed, Usage
from services.core.web.auth import DirectRoute, Principal
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body
from services.inference.relay_protocol import EMBEDDINGS

REQUEST_ERRORS = (InvalidRequest, AuthenticationFailed, PermissionDenied, NotFound, Conflict)
SERVING_ERRORS = (PayloadTooLarge, RateLimited, BadGateway, Unavailable, GatewayTimeout)
INFERENCE_RESPONSES: dict[int | str, dict[str, Any]] = {
    **documented_errors(*REQUEST_ERRORS, *SERVING_ERRORS),
    200: {
        "description": "The engine's response; events when the request has stream: true.",
        "content": {"application/json": {}, "text/event-stream": {}},
    },
}

inference = APIRouter(
    prefix="/v1", tags=["inference"], responses=INFERENCE_RESPONSES, route_class=DirectRoute
)
router = kind_router(JobKind.SERVE)
usage = APIRouter(
    prefix="/v1/usage", tags=["inference"], responses=documented_errors(AuthenticationFailed)
)
models = APIRouter(
    prefix="/v1/models", tags=["models"], responses=documented_errors(AuthenticationFailed)
)

KindRoutes.of(JobKind.SERVE, serving_view).add_to(router)


@inference.post(
    "/chat/completions",
    summary="Continue a conversation",
    openapi_extra=documented_body(InferenceBody, CHAT),
)
async def chat_completions(request: Request, gateway: Gateway, principal: Principal) -> Response:
    """Answered by the engine of the model, which is started if necessary."""
    return await gateway.inference.answer("/v1/chat/completions", request.receive, principal)


@inference.post(
    "/completions",
    summary="Continue a text",
    openapi_extra=documented_body(InferenceBody, COMPLETION),
)
async def completions(request: Request, gateway: Gateway, principal: Principal) -> Response:
    """Answered by the engine of the model, which is started if necessary."""
    return await gateway.inference.answer("/v1/completions", request.receive, principal)


@inference.post(
    "/embeddings",
    summary="Embed texts",
    openapi_extra=documented_body(InferenceBody, EMBEDDING),
)
async def embeddings(request: Request, gateway: Gateway, principal: Principal) -> Response:
    """Answered by the engine of an embedding model, which is started if necessary."""
    return await gateway.inference.answer(EMBEDDINGS, request.receive, principal)


@usage.get("", summary="Show the usage of the API key")
def list_usage(
    gateway: Gateway,
    principal: Principal,
    days: Annotated[int, Query(ge=1, le=RETENTION_DAYS, description="Days, today included.")] = 30,
) -> Usage:
    """Requests to served models that were answered, and their tokens, by day (UTC) and model."""
    with gateway.database.read() as session:
        return usage_of(session, principal, days)


@models.post(
    "/{model_id:path}/deploy",
    summary="Deploy a model",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def deploy(
    gateway: Gateway,
    creation: Creation,
    model_id: str,
    body: Annotated[DeployModel, Body(openapi_examples=DEPLOYMENT)],
) -> Serving:
    """Start a model's engine ahead of its first request, or keep a running one warm."""
    return creation.create(
        f"deploy {model_id}",
        body,
        Serving,
        lambda session: serving_view(deploy_model(session, model_id, body, gateway.settings)),
    )


@models.post(
    "/{model_id:path}/undeploy",
    summary="Undeploy a model",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def undeploy(gateway: Gateway, _principal: Principal, model_id: str) -> Undeployed:
    """Stop the engine of a model and of all adapters that share it."""
    with gateway.database.write() as session:
        stopped = undeploy_model(session, model_id, gateway.settings)
    return Undeployed(model=model_id, servings=[job.id for job in stopped])
