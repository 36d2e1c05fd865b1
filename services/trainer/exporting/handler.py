"""The handler of export jobs."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.orm import Session

from services.contracts.errors import PermissionDenied
from services.contracts.models.jobs import FOLDER, CreateExport, is_allowed, scheme_of
from services.contracts.models.registered import Lineage
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.process.runtimes import find_runtime
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import get_model_row, locate_model
from services.trainer.exporting.spec import SPEC, Credentials, ExportSpec

RUNTIME = "training"
CHILD = "services.trainer.exporting"


class ExportHandler:
    """Copies in the training runtime, which has the clients of hubs and stores."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> None:
        """An export has no uploaded files."""

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Export; raises `PermissionDenied` if this host's operator does not allow it."""
        request = CreateExport.model_validate(claim.job.request)
        self._check_allowed(request.destination)
        with database.read() as session:
            spec = self._spec(session, claim.job.id, request)
        (job_dir / SPEC).write_text(spec.model_dump_json())
        python = find_runtime(self._settings.runtimes_folder, RUNTIME).python
        token = self._settings.export_hub_token
        credentials = Credentials(
            hub_token=token.get_secret_value() if token else None,
            options=self._settings.export_options.get(scheme_of(request.destination), {}),
        )
        return Launch([str(python), "-m", CHILD, str(job_dir)], credentials.variables())

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Store what was copied."""
        return {name: result[name] for name in ("files", "bytes", "commit")}

    def _check_allowed(self, destination: str) -> None:
        """Links are followed: they must not lead out of the allowed folders."""
        allowed = self._settings.export_destinations
        is_permitted = is_allowed(destination, allowed)
        if scheme_of(destination) == FOLDER:
            place = Path(urlsplit(destination).path).resolve()
            roots = [Path(urlsplit(each).path) for each in allowed if scheme_of(each) == FOLDER]
            is_permitted = is_permitted and any(
                place.is_relative_to(root.resolve()) for root in roots
            )
        if not is_permitted:
            raise PermissionDenied(
                f"{destination} is not below one of this worker's TEMPER_EXPORT_DESTINATIONS",
                param="destination",
            )

    def _spec(self, session: Session, job_id: str, request: CreateExport) -> ExportSpec:
        model = locate_model(session, request.model, self._settings.models_folder, self._artifacts)
        folder = model.adapter or model.weights.path
        if folder is None:  # unregistered and registered again since the request
            raise PermissionDenied(f"{request.model!r} has no files here", param="model")
        row = get_model_row(session, request.model)
        lineage = Lineage.model_validate(row.lineage).model_dump() if row.lineage else None
        about = {"id": model.id, "kind": row.kind, "base": row.base, "lineage": _public(lineage)}
        return ExportSpec(
            job_id=job_id,
            folder=folder,
            destination=request.destination,
            base=(model.weights.hub_id or model.base) if model.adapter else None,
            about=about,
        )


def _public(value: Any) -> Any:
    """A publishable lineage, without the paths of this host."""
    if not isinstance(value, dict):
        return value
    return {
        name: _public(item)
        for name, item in value.items()
        if not (isinstance(item, str) and item.startswith("/"))
    }
