"""Look up models, resolve them to weights, and register trained ones."""

import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.models import Lineage, ModelKind
from services.core.artifacts import Artifacts, ModelSource, ServingNeeds, read_serving_needs
from services.core.db.tables import ModelRow
from services.core.models.checkpoints import find_checkpoint


@dataclass(frozen=True)
class ResolvedModel:
    """A model ready to load: full weights and optionally an adapter over them.

    ``base`` is the name of the full weights; it equals ``id`` without an adapter.
    ``stop_token_ids`` end a response, in addition to those in the model's configuration.
    """

    id: str
    base: str
    weights: ModelSource
    adapter: Path | None = None
    stop_token_ids: tuple[int, ...] = ()
    needs_merge: bool = False


def get_model_row(session: Session, model_id: str, param: str | None = None) -> ModelRow:
    """Return a model's row, or raise `NotFound`. Checkpoints of jobs are models too."""
    row = session.scalar(select(ModelRow).where(ModelRow.id == model_id))
    row = row or find_checkpoint(session, model_id)
    if row is None:
        raise NotFound(
            f"no model {model_id!r}; register it with POST /v1/models",
            param=param or "model",
            code="model_not_found",
        )
    return row


def resolve_model(
    session: Session, model_id: str, model_root: Path, artifacts: Artifacts
) -> ResolvedModel:
    """Resolve a model's name to weights on disk or on a hub.

    Raises `NotFound` for an unknown name and `InvalidRequest` when its folder is gone.
    """
    row = get_model_row(session, model_id)
    weights = _weights(row, model_root, artifacts)
    serving = _serving_needs(row, weights, artifacts)
    if row.kind != ModelKind.ADAPTER:
        return ResolvedModel(row.id, row.id, weights, stop_token_ids=serving.stop_token_ids)
    if row.base is None:
        raise InvalidRequest(f"adapter {model_id!r} has no base model", param="model")
    base = get_model_row(session, row.base)
    if base.kind == ModelKind.ADAPTER:
        raise InvalidRequest(f"the base of {model_id!r} is itself an adapter", param="model")
    return ResolvedModel(
        id=row.id,
        base=base.id,
        weights=_weights(base, model_root, artifacts),
        adapter=weights.path,
        stop_token_ids=serving.stop_token_ids,
        needs_merge=serving.needs_merge,
    )


def _serving_needs(row: ModelRow, weights: ModelSource, artifacts: Artifacts) -> ServingNeeds:
    """From the lineage of a trained model, or from the files of a checkpoint."""
    if row.lineage:
        lineage = Lineage.model_validate(row.lineage)
        return ServingNeeds(tuple(lineage.stop_token_ids), lineage.needs_merge)
    if row.job_id is None or weights.path is None:
        return ServingNeeds()
    return read_serving_needs(weights.path, artifacts.job(row.job_id))


def _weights(row: ModelRow, model_root: Path, artifacts: Artifacts) -> ModelSource:
    if row.hub_id is not None:
        return ModelSource(hub_id=row.hub_id, revision=row.revision)
    if row.folder is not None:
        path = model_root / row.folder
    else:
        path = artifacts.job(str(row.job_id)) / str(row.job_path)
    if not path.is_dir():
        raise InvalidRequest(f"the folder of model {row.id!r} is gone", param="model")
    return ModelSource(path=path)


@dataclass(frozen=True)
class TrainedModel:
    """A trained model to register; ``path`` is relative to the job's folder."""

    id: str
    kind: ModelKind
    base: str | None
    path: str
    lineage: Lineage


def register_trained(session: Session, model: TrainedModel) -> None:
    """Register the model that a job trained."""
    session.add(
        ModelRow(
            id=model.id,
            kind=model.kind.value,
            base=model.base,
            job_id=model.lineage.job_id,
            job_path=model.path,
            lineage=model.lineage.model_dump(mode="json"),
            created_at=time.time(),
        )
    )
    session.flush()
