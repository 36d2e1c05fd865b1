"""/v1/batches."""

from services.api.batches.service import batch_view, create_batch
from services.api.examples import BATCH
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.contracts.errors import Conflict, InvalidRequest, PermissionDenied
from services.contracts.jobs import JobKind

router = kind_router(JobKind.BATCH)

add_create_route(
    router,
    JobKind.BATCH,
    create_batch,
    batch_view,
    summary="Create a batch",
    description="Queue the requests of a file for a registered model, or for a server the operator "
    "allows.",
    examples=BATCH,
    errors=(InvalidRequest, PermissionDenied, Conflict),
)
KindRoutes.of(JobKind.BATCH, batch_view).add_to(router)
