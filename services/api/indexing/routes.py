"""/v1/indexing/jobs."""

from services.api.examples import INDEXING
from services.api.indexing.service import create_indexing_job, indexing_view
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.contracts.jobs import JobKind

router = kind_router(JobKind.INDEXING)

add_create_route(
    router,
    JobKind.INDEXING,
    create_indexing_job,
    indexing_view,
    summary="Build an index",
    description="Queue an index build; a complete index replaces one of the same name.",
    examples=INDEXING,
)
KindRoutes.of(JobKind.INDEXING, indexing_view).add_to(router)
