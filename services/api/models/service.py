"""Models in the database."""

import json
import shutil
import time
from collections.abc import Collection
from pathlib import Path

from pydantic import JsonValue
from sqlalchemy import Text, cast, delete, or_, select
from sqlalchemy.orm import Session

from services.api.models.folders import ModelFolder, inspect_folder
from services.contracts.errors import Conflict, InvalidRequest, NotFound, PermissionDenied
from services.contracts.jobs import JobStatus
from services.contracts.models.registered import (
    Lineage,
    Model,
    ModelKind,
    RegisterModel,
    RemoteModel,
)
from services.core.artifacts import Artifacts
from services.core.db.tables import CheckpointPermissionRow, JobRow, ModelRow
from services.core.settings import Settings
from services.models.loadable import UNTRUSTED_CODE
from services.models.registry import (
    ResolvedModel,
    get_model_row,
    is_reserved_name,
    require_model,
    resolve_model,
)

_MODEL_FIELDS = ("model", "base_model", "tokenizer")
_UNFINISHED = [status.value for status in JobStatus if not status.is_final]


def register_model(session: Session, model_root: Path, request: RegisterModel) -> Model:
    """Add a model; raises `Conflict` for a taken name and `InvalidRequest` for a reserved one."""
    if is_reserved_name(request.id):
        raise InvalidRequest(
            "names that begin with ft:, run: or the id of a job are reserved for what jobs train",
            param="id",
            code="model_name_reserved",
        )
    if session.scalar(select(ModelRow.seq).where(ModelRow.id == request.id)) is not None:
        raise Conflict(f"model {request.id!r} exists", param="id", code="model_exists")
    folder = inspect_folder(model_root, request.folder) if request.folder is not None else None
    kind = folder.kind if folder is not None else ModelKind.FULL
    _check_base(session, request, folder)
    row = ModelRow(
        id=request.id,
        kind=kind.value,
        base=request.base,
        folder=folder.name if folder is not None else None,
        hub_id=request.hub_id,
        revision=request.revision,
        created_at=time.time(),
    )
    session.add(row)
    session.flush()
    return model_view(row)


def _check_base(session: Session, request: RegisterModel, folder: ModelFolder | None) -> None:
    """An adapter must have a registered full model as its base; nothing else may have one."""
    is_adapter = folder is not None and folder.kind is ModelKind.ADAPTER
    if is_adapter and request.base is None:
        raise InvalidRequest("an adapter needs the model it belongs to", param="base")
    if request.base is None:
        return
    if not is_adapter:
        raise InvalidRequest("only an adapter folder has a base", param="base")
    if get_model_row(session, request.base, param="base").kind != ModelKind.FULL:
        raise InvalidRequest("must be a full model, not another adapter", param="base")


def require_loadable(
    session: Session, name: str, settings: Settings, param: str = "model"
) -> ModelRow:
    """The row of a model that a request names in ``param`` and a job will load.

    Raises `InvalidRequest` for an unknown name, and for a folder with code that may not run. Hub
    models are checked after their download.
    """
    row = require_model(session, name, param)
    try:
        resolve_for_load(session, name, settings)
    except (InvalidRequest, NotFound) as error:
        if error.code == UNTRUSTED_CODE:
            error.param = param
            raise
        # The job reports anything else that is missing: it may exist by then.
    return row


def resolve_for_load(session: Session, name: str, settings: Settings) -> ResolvedModel:
    """The model that will be loaded under this name; raises what `resolve_model` does."""
    artifacts = Artifacts(settings.home)
    return resolve_model(session, name, settings.models_folder, artifacts, settings.trusted_models)


def list_models(
    session: Session, text: str | None, after: str | None, limit: int
) -> tuple[list[Model], bool]:
    """Return up to ``limit`` models that contain ``text``, newest first, and whether there are
    more."""
    query = select(ModelRow)
    if text is not None:
        searched = (ModelRow.id, ModelRow.hub_id, ModelRow.folder)
        query = query.where(or_(*(each.icontains(text, autoescape=True) for each in searched)))
    if after is not None:
        query = query.where(ModelRow.seq < get_model_row(session, after, param="after").seq)
    rows = session.scalars(query.order_by(ModelRow.seq.desc()).limit(limit + 1)).all()
    return [model_view(row) for row in rows[:limit]], len(rows) > limit


def remove_model(session: Session, artifacts: Artifacts, model_id: str) -> Path | None:
    """Delete a model's row; return the folder to remove if a job created it.

    Raises `Conflict` while an unfinished job or an adapter needs it.
    """
    row = get_model_row(session, model_id, param="id")
    if row.seq is None:
        raise Conflict(f"checkpoint {model_id!r} belongs to its job", code="model_in_use")
    check_unused(session, model_id)
    session.execute(delete(ModelRow).where(ModelRow.seq == row.seq))
    granted = CheckpointPermissionRow.checkpoint == model_id
    session.execute(delete(CheckpointPermissionRow).where(granted))
    if row.job_id is None or row.job_path is None:
        return None
    return artifacts.job(row.job_id) / row.job_path


def check_unused(session: Session, model_id: str) -> None:
    """Raise `Conflict` while an unfinished job or an adapter needs a model or checkpoint."""
    adapter = session.scalar(select(ModelRow.id).where(ModelRow.base == model_id).limit(1))
    if adapter is not None:
        raise Conflict(f"adapter {adapter!r} belongs to {model_id!r}", code="model_in_use")
    job = _unfinished_job_with(session, model_id)
    if job is not None:
        raise Conflict(f"job {job} still needs {model_id!r}", code="model_in_use")


def _unfinished_job_with(session: Session, model_id: str) -> str | None:
    """An unfinished job whose request names the model in any role."""
    mentions_model = cast(JobRow.request, Text).contains(json.dumps(model_id), autoescape=True)
    jobs = session.execute(
        select(JobRow.id, JobRow.request).where(JobRow.status.in_(_UNFINISHED), mentions_model)
    )
    return next((job for job, request in jobs if _names(request, model_id)), None)


def _names(value: JsonValue, model_id: str) -> bool:
    if isinstance(value, list):
        return any(_names(each, model_id) for each in value)
    if not isinstance(value, dict):
        return False
    return any(
        (field in _MODEL_FIELDS and each == model_id) or _names(each, model_id)
        for field, each in value.items()
    )


def remove_weights(folder: Path) -> None:
    """Delete the weights of a trained model from disk."""
    shutil.rmtree(folder, ignore_errors=True)


def model_view(row: ModelRow) -> Model:
    """The wire view of a model."""
    return Model(
        id=row.id,
        created=int(row.created_at),
        owned_by="temper" if row.job_id is not None else "operator",
        kind=ModelKind(row.kind),
        base=row.base,
        folder=row.folder,
        hub_id=row.hub_id,
        revision=row.revision,
        lineage=Lineage.model_validate(row.lineage) if row.lineage is not None else None,
    )


def check_endpoint(
    model: RemoteModel, allowed: Collection[str], param: str = "model.base_url"
) -> None:
    """Raise `InvalidRequest` for a URL with credentials or a query, and `PermissionDenied` for an
    origin that the operator has not allowed."""
    url = model.base_url
    if url.username or url.password or url.query or url.fragment:
        message = "must be a plain URL: its key is set by the operator"
        raise InvalidRequest(message, param=param)
    if model.origin not in allowed:
        raise PermissionDenied(
            f"{model.origin} is not among the operator's TEMPER_ALLOWED_ENDPOINTS",
            param=param,
        )
