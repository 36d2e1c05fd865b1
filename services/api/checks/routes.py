"""/v1/checks."""

from services.api.checks.service import check_view, create_check
from services.api.examples import CHECK
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.contracts.jobs import JobKind

router = kind_router(JobKind.CHECK)

add_create_route(
    router,
    JobKind.CHECK,
    create_check,
    check_view,
    summary="Check a training file",
    description="Validate an uploaded file as a fine-tuning job would, without training on it.\n\n"
    "The check waits for no device. It fails on unusable rows and lists them.",
    examples=CHECK,
)
KindRoutes.of(JobKind.CHECK, check_view).add_to(router)
